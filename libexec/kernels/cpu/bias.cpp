#include <algorithm>
#include <cstdint>
#include <vector>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/expert_rows.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lanes.hpp"
#include "libexec/kernels/operands/bias_operands.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// Group number `i` of rows adds row place(i) of `added`.
template <typename S, typename A, typename Place>
void add_rows(KernelContext const& context, AddedRows<S, A> const& all, Place place) {
  std::int64_t const columns = all.columns;
  for_row_ranges(*context.pool, all.rows, columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      S* const values = all.x + row * columns;
      A const* const vector = all.added + place(row / all.group) * columns;
      for (std::int64_t i = 0; i < columns; ++i) {
        values[i] = narrow<S>(widen(values[i]) + widen(vector[i]));
      }
    }
  });
}

/// sum[column] += x[row, column] over the rows in order, by blocks of columns.
template <typename S, typename G>
void add_column_sums(KernelContext const& context, BiasGradientOperands<S, G> const& of) {
  using C = Compute<S>;
  std::int64_t const columns = of.columns;
  constexpr std::int64_t block = 128;
  context.pool->run((columns + block - 1) / block, [&](std::int64_t task, int) {
    std::int64_t const first = task * block;
    std::int64_t const width = std::min(block, columns - first);
    C sum[block] = {};
    for (std::int64_t row = 0; row < of.rows; ++row) {
      S const* const values = of.dy + row * columns + first;
      for (std::int64_t i = 0; i < width; ++i) sum[i] += widen(values[i]);
    }
    for (std::int64_t i = 0; i < width; ++i) add_to(of.sums[first + i], sum[i]);
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
  S const* const dy = elements_of<S>(call.reads[0]);
  S const* const biases = elements_of<S>(call.reads[1]);
  C* const products = expect_row_products<S>(call, all);
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
  with_added_bias(call, [&](auto const& all) {
    add_rows(context, all, [](std::int64_t group) { return group; });
  });
}

void add_positions(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    auto const all = expect_add_positions<decltype(tag)>(context.sequence, call);
    add_rows(context, all,
             [&](std::int64_t row) { return context.sequence.row_of(row, all.rows / all.group); });
  });
}

void bias_gradient(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    with_gradient_type<S>(call, call.writes[0], [&](auto gradient) {
      add_column_sums(context, expect_bias_gradient<S, decltype(gradient)>(call));
    });
  });
}

void positions_gradient(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    with_gradient_type<S>(call, call.writes[0], [&](auto gradient) {
      using G = decltype(gradient);
      auto const of = expect_positions_gradient<S, G>(context.sequence, call);
      std::int64_t const h = of.columns;
      std::int64_t const row_cost = of.sequences * h;
      for_row_ranges(*context.pool, of.rows, row_cost, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t position = begin; position < end; ++position) {
          G* const to = of.table + context.sequence.row_of(position, of.rows) * h;
          for (std::int64_t i = 0; i < h; ++i) {
            Compute<S> sum = widen(to[i]);
            for (std::int64_t sequence = 0; sequence < of.sequences; ++sequence) {
              sum += widen(of.dy[(position * of.sequences + sequence) * h + i]);
            }
            to[i] = narrow<G>(sum);
          }
        }
      });
    });
  });
}

void add(KernelContext const& context, KernelCall const& call) {
  with_addends(call, [&]<typename S, typename A>(AddedRows<S, A> const& all) {
    for_row_ranges(*context.pool, all.columns, 1, [&](std::int64_t begin, std::int64_t end) {
      A const* const added = all.added;
      S* const sum = all.x;
      for (std::int64_t i = begin; i < end; ++i) add_to(sum[i], widen(added[i]));
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

void weighted_bias_add(KernelContext const& context, KernelCall const& call) {
  grouped_bias_add(context, call);
}

void weighted_bias_gradient(KernelContext const& context, KernelCall const& call) {
  grouped_bias_gradient(context, call);
}

void bias_probability_gradient(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    with_grouped_rows<S>(call, call.reads[1], element_type<S>(),
                         [&](GroupedRows const& all) { multiply_biases<S>(context, call, all); });
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
