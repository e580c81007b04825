#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "libsim/model/low_precision.hpp"
#include "libsim/program/quantisation.hpp"
#include "libsim/units/inline_list.hpp"

namespace stagecraft {

/// What a library that quantises does in its own way. What a recipe stores is the recipe's.
struct LibraryTraits {
  LowLibrary library = LowLibrary::transformer_engine;
  InlineList<Recipe, 8> recipes{};
  /// Why the others are not its own.
  std::string_view why_others = "";
  bool has_format = true;            ///< whether key `format` may name another than the recipe's
  bool splits_linears = true;        ///< whether ranks of a tensor group share a linear layer
  bool has_experts = true;           ///< whether it multiplies those of mixtures
  bool is_of_linears = false;        ///< whether it quantises nothing but linear layers
  bool casts_again = false;          ///< Quantisation::casts_again
  bool fuses_activation = false;     ///< Quantisation::fuses_activation
  bool transposes_weights = false;   ///< Quantisation::transposes_weights, unless they are kept
  bool narrows_context = false;      ///< Quantisation::narrows_context
  bool shares_casts = false;         ///< Quantisation::shares_casts, if tokens are sent low
  bool sends_low_gradients = false;  ///< Quantisation::sends_low_gradients, if tokens are sent low
  /// Whether its kernels leave free the multiprocessors that exchanges of tokens take.
  bool leaves_multiprocessors = false;
  /// Quantisation::casts_weights, so that units may gather weights in 16 bits.
  bool casts_weights = false;
};

/// Every library, in the order of LowLibrary.
inline constexpr std::array low_libraries{
    LibraryTraits{.library = LowLibrary::transformer_engine,
                  .recipes = {Recipe::delayed, Recipe::current, Recipe::blockwise, Recipe::mxfp8,
                              Recipe::nvfp4},
                  .why_others = "scales of rows are torchao's"},
    // torchao/float8: Float8Linear has dynamic scales of tensors and of rows. Its MXFP8 linear
    // layers and its experts are prototypes.
    LibraryTraits{.library = LowLibrary::torchao,
                  .recipes = {Recipe::current, Recipe::rowwise},
                  .why_others = "torchao.float8 has current and rowwise",
                  .has_format = false,
                  .has_experts = false,
                  .is_of_linears = true,
                  .casts_weights = true},
    LibraryTraits{.library = LowLibrary::deepseek,
                  .recipes = {Recipe::blockwise},
                  .why_others = "deepseek has blockwise alone",
                  .splits_linears = false,
                  .casts_again = true,
                  .fuses_activation = true,
                  .transposes_weights = true,
                  .narrows_context = true,
                  .shares_casts = true,
                  .sends_low_gradients = true,
                  .leaves_multiprocessors = true},
};

constexpr LibraryTraits const& traits_of(LowLibrary library) {
  return low_libraries[static_cast<std::size_t>(library)];
}

constexpr bool has_recipe(LibraryTraits const& library, Recipe recipe) {
  return std::find(library.recipes.begin(), library.recipes.end(), recipe) != library.recipes.end();
}

/// Whether the tensor group gathers operands in 16 bits. Operands with one scale travel in 8 bits:
/// the group agrees on the scale.
constexpr bool gathers_high(LibraryTraits const& library, RecipeTraits const& recipe) {
  return library.casts_weights && recipe.scaling != Scaling::tensor;
}

/// The value of key `low_precision` for a recipe as a library has it.
inline std::string key_value(Recipe recipe, LowLibrary library) {
  std::string const name{name_of(recipe)};
  bool const is_default = library == LowPrecision{}.implementation || recipe == Recipe::none;
  return is_default
             ? name
             : "{recipe: " + name + ", implementation: " + std::string{name_of(library)} + "}";
}

/// The libraries for which `holds`, in one text: `transformer_engine, torchao`.
template <typename Condition>
std::string names_of_libraries(Condition holds) {
  std::string text;
  for (LibraryTraits const& row : low_libraries) {
    if (holds(row)) text += (text.empty() ? "" : ", ") + std::string{name_of(row.library)};
  }
  return text;
}

}  // namespace stagecraft
