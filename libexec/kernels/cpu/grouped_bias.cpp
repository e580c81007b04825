#include <cstdint>
#include <vector>

#include "libexec/kernels/grouped_rows.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lane_reduction.hpp"
#include "libexec/kernels/row_ranges.hpp"

/// Biases of experts: rows [rows, columns] in as many groups as there are biases of `columns`
/// elements.
namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// The ends of groups that counts tell; empty if groups have equally many rows.
std::vector<std::int64_t> ends_of(KernelCall const& call, GroupedRows const& all) {
  GroupCounts const counts = expect_counts(call, all);
  std::vector<std::int64_t> ends(static_cast<std::size_t>(counts.groups));
  std::int64_t end = 0;
  for (std::int64_t group = 0; group < counts.groups; ++group) {
    ends[static_cast<std::size_t>(group)] = end += counts(group);
  }
  expect(call, end <= all.rows, "groups have more rows than there are");
  return ends;
}

/// Calls body(rows) with the ends of groups.
template <typename S, typename Body>
void with_grouped_rows(KernelCall const& call,
                       Operand const& bias,
                       ElementType type_of_bias,
                       Body const& body) {
  GroupedRows all = expect_grouped_rows<S>(call, call.reads[0], bias, type_of_bias);
  std::vector<std::int64_t> const ends = ends_of(call, all);
  if (!ends.empty()) all.ends = ends.data();
  body(all);
}

template <typename S>
void add_biases(KernelContext const& context, KernelCall const& call, GroupedRows const& all) {
  using C = Compute<S>;
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
void add_gradients(KernelContext const& context, KernelCall const& call, GroupedRows const& all) {
  using C = Compute<S>;
  C const* const factors = optional_factors<S>(call, 1, all.rows);
  S const* const dy = elements_of<S>(call.reads[0]);
  C* const sums = elements_of<C>(call.writes[0]);
  context.pool->run(all.groups, [&](std::int64_t group, int) {
    C* const sum = sums + group * all.columns;
    for (std::int64_t row = all.begin_of(group); row < all.end_of(group); ++row) {
      C const factor = factors == nullptr ? C{1} : factors[row];
      S const* const values = dy + row * all.columns;
      for (std::int64_t i = 0; i < all.columns; ++i) sum[i] += factor * widen(values[i]);
    }
  });
}

template <typename S>
void multiply_biases(KernelContext const& context, KernelCall const& call, GroupedRows const& all) {
  using C = Compute<S>;
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
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    with_grouped_rows<S>(call, call.reads[1], element_type<S>(),
                         [&](GroupedRows const& all) { add_biases<S>(context, call, all); });
  });
}

void grouped_bias_gradient(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    with_grouped_rows<S>(call, call.writes[0], element_type<Compute<S>>(),
                         [&](GroupedRows const& all) { add_gradients<S>(context, call, all); });
  });
}

void bias_probability_gradient(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    with_grouped_rows<S>(call, call.reads[1], element_type<S>(),
                         [&](GroupedRows const& all) { multiply_biases<S>(context, call, all); });
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
