#include <algorithm>
#include <cstdint>
#include <vector>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/expert_rows.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lanes.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// x[row, column] += vector[column], in place; `group` rows share row place(row / group) of
/// `added`, whose elements are of type A.
template <typename S, typename A, typename Place>
void add_rows(KernelContext const& context,
              KernelCall const& call,
              std::int64_t rows,
              std::int64_t columns,
              std::int64_t group,
              Place place) {
  expect_elements(call, call.writes[0], element_type<S>(), rows * columns);
  S* const x = elements_of<S>(call.writes[0]);
  A const* const added = elements_of<A>(call.reads[1]);
  for_row_ranges(*context.pool, rows, columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      S* const values = x + row * columns;
      A const* const vector = added + place(row / group) * columns;
      for (std::int64_t i = 0; i < columns; ++i) {
        values[i] = narrow<S>(widen(values[i]) + widen(vector[i]));
      }
    }
  });
}

/// sum[column] += x[row, column] over the rows in order, by blocks of columns.
template <typename S>
void add_column_sums(KernelContext const& context,
                     S const* x,
                     Compute<S>* sums,
                     std::int64_t rows,
                     std::int64_t columns) {
  using C = Compute<S>;
  constexpr std::int64_t block = 128;
  context.pool->run((columns + block - 1) / block, [&](std::int64_t task, int) {
    std::int64_t const first = task * block;
    std::int64_t const width = std::min(block, columns - first);
    C sum[block] = {};
    for (std::int64_t row = 0; row < rows; ++row) {
      S const* const values = x + row * columns + first;
      for (std::int64_t i = 0; i < width; ++i) sum[i] += widen(values[i]);
    }
    for (std::int64_t i = 0; i < width; ++i) sums[first + i] += sum[i];
  });
}

// Biases of experts: rows [rows, columns] in as many groups as there are biases of `columns`
// elements.

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

void bias_add(KernelContext const& context, KernelCall const& call) {
  Operand const& x = call.reads[0];
  expect(call, x.shape.rank() > 0 && last_extent(x) > 0, "x has no columns");
  std::int64_t const n = last_extent(x);
  Operand const& bias = call.reads[1];
  expect_tensor(call, bias, bias.type, {n});
  std::int64_t const rows = x.shape.elements() / n;
  auto const same = [](std::int64_t row) { return row; };
  with_storage_type(call.kind, bias.type, [&](auto tag) {
    using A = decltype(tag);
    // A router may have logits in fp32 and a bias in the type of the activations.
    if (x.type == element_type<A>()) {
      add_rows<A, A>(context, call, rows, n, rows, same);
    } else {
      add_rows<Compute<A>, A>(context, call, rows, n, rows, same);
    }
  });
}

void add_positions(KernelContext const& context, KernelCall const& call) {
  Operand const& x = call.reads[0];
  expect(call, x.shape.rank() == 3, "x is not [s, b, h]");
  Operand const& table = call.reads[1];
  expect_positions(call, table, x.shape[0], context.sequence);
  expect_tensor(call, table, x.type, {table.shape[0], x.shape[2]});
  with_storage_type(call.kind, x.type, [&](auto tag) {
    add_rows<decltype(tag), decltype(tag)>(
        context, call, x.shape[0] * x.shape[1], x.shape[2], x.shape[1],
        [&](std::int64_t row) { return context.sequence.row_of(row, x.shape[0]); });
  });
}

void bias_gradient(KernelContext const& context, KernelCall const& call) {
  Operand const& dy = call.reads[0];
  expect(call, dy.shape.rank() > 0 && last_extent(dy) > 0, "dy has no columns");
  std::int64_t const n = last_extent(dy);
  with_storage_type(call.kind, dy.type, [&](auto tag) {
    using S = decltype(tag);
    expect_tensor(call, dy, element_type<S>(), dy.shape);
    expect_tensor(call, call.writes[0], element_type<Compute<S>>(), {n});
    add_column_sums(context, elements_of<S>(dy), elements_of<Compute<S>>(call.writes[0]),
                    dy.shape.elements() / n, n);
  });
}

void positions_gradient(KernelContext const& context, KernelCall const& call) {
  Operand const& dy = call.reads[0];
  expect(call, dy.shape.rank() == 3, "dy is not [s, b, h]");
  std::int64_t const b = dy.shape[1];
  std::int64_t const h = dy.shape[2];
  with_storage_type(call.kind, dy.type, [&](auto tag) {
    using S = decltype(tag);
    using C = Compute<S>;
    expect_tensor(call, dy, element_type<S>(), dy.shape);
    Operand const& table = call.writes[0];
    expect_positions(call, table, dy.shape[0], context.sequence);
    expect_tensor(call, table, element_type<C>(), {table.shape[0], h});
    S const* const from = elements_of<S>(dy);
    C* const to = elements_of<C>(call.writes[0]);
    for_row_ranges(*context.pool, dy.shape[0], b * h, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t position = begin; position < end; ++position) {
        C* const sum = to + context.sequence.row_of(position, dy.shape[0]) * h;
        for (std::int64_t sequence = 0; sequence < b; ++sequence) {
          S const* const row = from + (position * b + sequence) * h;
          for (std::int64_t i = 0; i < h; ++i) sum[i] += widen(row[i]);
        }
      }
    });
  });
}

void add(KernelContext const& context, KernelCall const& call) {
  Operand const& a = call.reads[0];
  std::int64_t const n = a.shape.elements();
  expect_tensor(call, call.reads[1], a.type, a.shape);
  with_storage_type(call.kind, a.type, [&](auto tag) {
    using S = decltype(tag);
    expect_elements(call, call.writes[0], element_type<S>(), n);
    S const* const added = elements_of<S>(call.reads[1]);
    S* const sum = elements_of<S>(call.writes[0]);
    for_row_ranges(*context.pool, n, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        sum[i] = narrow<S>(widen(sum[i]) + widen(added[i]));
    });
  });
}

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
