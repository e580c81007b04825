#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "libsim/units/enum_names.hpp"

namespace stagecraft {

/// The category in which the bytes of a buffer are counted.
enum class Category : std::uint8_t {
  parameters,
  gradients,      ///< gradients of parameters, and counters; those of activations count as
                  ///< activations
  optimizer,      ///< fp32 master copies and Adam moments
  activations,    ///< results of forward, their gradients, and temporaries
  recomputed,     ///< activations recomputed in the backward pass
  communication,  ///< buffers that exist only to be sent, received or gathered
  gathered,       ///< of sharded units: gathered parameters, gradients that are not reduced yet
  workspace,      ///< scratch space of kernels, declared by the backend
};

/// What the categories of a kind have in common.
enum class CategoryKind : std::uint8_t {
  state,       ///< kept from one iteration to the next
  activation,  ///< comes and goes with microbatches; what papers count as activation memory
  units,       ///< only plans with sharded units have it, and traces of earlier versions lack it
  scratch,     ///< not a buffer of the plan
};

/// All that is told of a category anywhere.
struct CategoryRow {
  Category category = Category::parameters;
  std::string_view name;     ///< in JSON, traces, pages and sentences
  std::string_view heading;  ///< of a column of a text table
  CategoryKind kind = CategoryKind::state;
  std::string_view light;  ///< its colour on light pages, as CSS has it
  std::string_view dark;   ///< and on dark ones
};

/// In the order of the enumeration, which is that of output.
inline constexpr auto categories = std::to_array<CategoryRow>({
    {Category::parameters, "parameters", "param", CategoryKind::state, "#41536a", "#a8b9cd"},
    {Category::gradients, "gradients", "grad", CategoryKind::state, "#74889f", "#7187a0"},
    {Category::optimizer, "optimizer", "optim", CategoryKind::state, "#adbac9", "#475b73"},
    {Category::activations, "activations", "activ", CategoryKind::activation, "#e6ac50", "#e3b062"},
    {Category::recomputed, "recomputed", "recomp", CategoryKind::activation, "#b03f6c", "#d0628d"},
    {Category::communication, "communication", "comm", CategoryKind::activation, "#7a66b8",
     "#9a88dc"},
    {Category::gathered, "gathered", "gathered", CategoryKind::units, "#3f8f7a", "#58b09a"},
    {Category::workspace, "workspace", "work", CategoryKind::scratch, "#cbbf96", "#857c5f"},
});
inline constexpr int category_count = static_cast<int>(categories.size());

constexpr CategoryRow const& row_of(Category category) {
  return categories[static_cast<std::size_t>(category)];
}

template <>
struct EnumNames<Category> {
  static constexpr auto all = names_in<Category>(categories, &CategoryRow::category);
};

}  // namespace stagecraft
