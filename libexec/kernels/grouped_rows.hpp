#pragma once

#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"
#include "libsim/units/sorted_search.hpp"

/// Rows [rows, columns] in as many groups as there are biases of `columns` elements.
namespace stagecraft {

/// How many rows groups have if counts [parts, groups] say so.
struct GroupCounts {
  std::int32_t const* counts = nullptr;
  std::int64_t parts = 0;
  std::int64_t groups = 0;

  STAGECRAFT_HOST_DEVICE std::int64_t operator()(std::int64_t group) const {
    std::int64_t sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) sum += counts[part * groups + group];
    return sum;
  }
};

/// Rows of groups that follow each other.
struct GroupedRows {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t groups = 0;
  /// The row after the last one of each group; null if groups have equally many.
  std::int64_t const* ends = nullptr;

  STAGECRAFT_HOST_DEVICE constexpr std::int64_t end_of(std::int64_t group) const {
    return ends == nullptr ? rows / groups * (group + 1) : ends[group];
  }
  STAGECRAFT_HOST_DEVICE constexpr std::int64_t begin_of(std::int64_t group) const {
    return group == 0 ? 0 : end_of(group - 1);
  }
  /// Rows behind those of all groups are not used.
  STAGECRAFT_HOST_DEVICE constexpr std::int64_t used() const { return end_of(groups - 1); }
  STAGECRAFT_HOST_DEVICE constexpr std::int64_t group_of(std::int64_t row) const {
    if (ends == nullptr) return row / (rows / groups);
    return first_above(ends, groups, row);
  }
};

/// Expects rows, and biases or their gradients; ends are not set.
template <typename S>
GroupedRows expect_grouped_rows(KernelCall const& call,
                                Operand const& x,
                                Operand const& bias,
                                ElementType type_of_bias) {
  expect(call, x.shape.rank() == 2 && x.shape[1] > 0, "x is not [rows, columns]");
  expect_tensor(call, x, element_type<S>(), x.shape);
  std::int64_t const elements = bias.shape.elements();
  expect_elements(call, bias, type_of_bias, elements);
  expect(call, elements > 0 && elements % x.shape[1] == 0, "biases are not [groups, columns]");
  return {.rows = x.shape[0], .columns = x.shape[1], .groups = elements / x.shape[1]};
}

/// The counts, which are the last operand; without groups if there are none, and all groups have
/// equally many rows.
inline GroupCounts expect_counts(KernelCall const& call, GroupedRows const& all) {
  Operand const& counts = call.reads[call.reads.size() - 1];
  if (counts.type != ElementType::i32) {
    expect(call, all.rows % all.groups == 0,
           "the rows are not in as many groups as there are biases");
    return {};
  }
  std::int64_t const parts = counts.shape.elements() / all.groups;
  expect_elements(call, counts, ElementType::i32, parts * all.groups);
  return {elements_of<std::int32_t>(counts), parts, all.groups};
}

/// The factor of each row, operand `index`; null if there is none.
template <typename S>
Compute<S> const* optional_factors(KernelCall const& call, std::size_t index, std::int64_t rows) {
  bool const is_there =
      call.reads.size() > index && call.reads[index].type != ElementType::i32;  // which counts are
  if (!is_there) return nullptr;
  expect_elements(call, call.reads[index], element_type<Compute<S>>(), rows);
  return elements_of<Compute<S>>(call.reads[index]);
}

}  // namespace stagecraft
