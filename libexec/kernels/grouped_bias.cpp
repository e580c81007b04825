#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lane_reduction.hpp"
#include "libexec/kernels/row_ranges.hpp"

/// Biases of experts: rows [rows, columns] in as many groups as there are biases of `columns`
/// elements.
namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// Rows of groups that follow each other.
struct GroupedRows {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::int64_t> ends;  ///< the row after the last one of each group

  /// Rows behind those of all groups are not used.
  std::int64_t used() const { return ends.back(); }
  std::int64_t group_of(std::int64_t row) const {
    return std::upper_bound(ends.begin(), ends.end(), row) - ends.begin();
  }
};

/// The rows of each group if counts [parts, groups] say how many there are; else equally many.
std::vector<std::int64_t> ends_of(KernelCall const& call, std::int64_t rows, std::int64_t groups) {
  std::vector<std::int64_t> ends(static_cast<std::size_t>(groups), rows / groups);
  if (Operand const& counts = call.reads[call.reads.size() - 1]; counts.type == ElementType::i32) {
    std::int64_t const parts = counts.shape.elements() / groups;
    expect_elements(call, counts, ElementType::i32, parts * groups);
    for (std::int64_t group = 0; group < groups; ++group) {
      std::int64_t& sum = ends[static_cast<std::size_t>(group)];
      sum = 0;
      for (std::int64_t i = group; i < parts * groups; i += groups) {
        sum += elements_of<std::int32_t>(counts)[i];
      }
    }
  } else {
    expect(call, rows % groups == 0, "the rows are not in as many groups as there are biases");
  }
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  expect(call, ends.back() <= rows, "groups have more rows than there are");
  return ends;
}

template <typename S>
GroupedRows grouped_rows(KernelCall const& call,
                         Operand const& x,
                         Operand const& bias,
                         ElementType type_of_bias) {
  expect(call, x.shape.rank() == 2 && x.shape[1] > 0, "x is not [rows, columns]");
  expect_tensor(call, x, element_type<S>(), x.shape);
  std::int64_t const elements = bias.shape.elements();
  expect_elements(call, bias, type_of_bias, elements);
  expect(call, elements > 0 && elements % x.shape[1] == 0, "biases are not [groups, columns]");
  return {x.shape[0], x.shape[1], ends_of(call, x.shape[0], elements / x.shape[1])};
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

template <typename S>
void add_biases(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  GroupedRows const all = grouped_rows<S>(call, call.reads[0], call.reads[1], element_type<S>());
  C const* const factors = optional_factors<S>(call, 2, all.rows);
  S* const x = elements_of<S>(call.writes[0]);
  S const* const biases = elements_of<S>(call.reads[1]);
  for_row_ranges(*context.pool, all.used(), all.columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      S* const values = x + row * all.columns;
      S const* const bias = biases + all.group_of(row) * all.columns;
      C const factor = factors == nullptr ? C{1} : factors[row];
      for (std::int64_t i = 0; i < all.columns; ++i) {
        values[i] = narrow<S>(widen(values[i]) + factor * widen(bias[i]));
      }
    }
  });
}

/// Each bias' sum of its rows in order.
template <typename S>
void add_gradients(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  GroupedRows const all = grouped_rows<S>(call, call.reads[0], call.writes[0], element_type<C>());
  C const* const factors = optional_factors<S>(call, 1, all.rows);
  S const* const dy = elements_of<S>(call.reads[0]);
  C* const sums = elements_of<C>(call.writes[0]);
  context.pool->run(std::ssize(all.ends), [&](std::int64_t group, int) {
    auto const end = all.ends.begin() + group;
    C* const sum = sums + group * all.columns;
    for (std::int64_t row = group == 0 ? 0 : *(end - 1); row < *end; ++row) {
      C const factor = factors == nullptr ? C{1} : factors[row];
      S const* const values = dy + row * all.columns;
      for (std::int64_t i = 0; i < all.columns; ++i) sum[i] += factor * widen(values[i]);
    }
  });
}

template <typename S>
void multiply_biases(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  GroupedRows const all = grouped_rows<S>(call, call.reads[0], call.reads[1], element_type<S>());
  expect_elements(call, call.writes[0], element_type<C>(), all.rows);
  S const* const dy = elements_of<S>(call.reads[0]);
  S const* const biases = elements_of<S>(call.reads[1]);
  C* const products = elements_of<C>(call.writes[0]);
  for_row_ranges(*context.pool, all.used(), all.columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      S const* const values = dy + row * all.columns;
      S const* const bias = biases + all.group_of(row) * all.columns;
      products[row] = lane_sum<C>(
          all.columns, [&](std::int64_t i) { return widen(values[i]) * widen(bias[i]); });
    }
  });
}

}  // namespace

void grouped_bias_add(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { add_biases<decltype(tag)>(context, call); });
}

void grouped_bias_gradient(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { add_gradients<decltype(tag)>(context, call); });
}

void bias_probability_gradient(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { multiply_biases<decltype(tag)>(context, call); });
}

}  // namespace stagecraft::STAGECRAFT_ISA
