#pragma once

#include <cstddef>
#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"
#include "libexec/kernels/operands/unit_operands.hpp"

/// The operands of the kernels that add biases, position embeddings and tensors, and their checks.
namespace stagecraft {

/// The bias of `columns` elements, operand `index`; null if there is none.
template <typename S>
S const* optional_bias(KernelCall const& call, std::size_t index, std::int64_t columns) {
  if (call.reads.size() <= index) return nullptr;
  return expect_tensor<S>(call, call.reads[index], {columns});
}

/// x += added, in place: a row of `added` for every `group` rows of x.
template <typename S, typename A>
struct AddedRows {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t group;
  S* x;
  A const* added;
};

/// Calls body(rows) with an AddedRows that adds a bias [columns] to every row. A router may have
/// logits in fp32 and a bias in the type of the activations.
template <typename Body>
void with_added_bias(KernelCall const& call, Body const& body) {
  Operand const& x = call.reads[0];
  expect(call, x.shape.rank() > 0 && last_extent(x) > 0, "x has no columns");
  std::int64_t const columns = last_extent(x);
  std::int64_t const elements = x.shape.elements();
  std::int64_t const rows = elements / columns;
  with_storage_type(call.kind, call.reads[1].type, [&](auto tag) {
    using A = decltype(tag);
    A const* const bias = expect_tensor<A>(call, call.reads[1], {columns});
    auto const add = [&](auto sum) {
      using S = decltype(sum);
      body(AddedRows<S, A>{rows, columns, rows, expect_elements<S>(call, call.writes[0], elements),
                           bias});
    };
    x.type == element_type<A>() ? add(A{}) : add(Compute<A>{});
  });
}

/// Expects x [s, b, h] and a table [positions, h].
template <typename S>
AddedRows<S, S> expect_add_positions(SequencePart const& sequence, KernelCall const& call) {
  Operand const& x = call.reads[0];
  Operand const& table = call.reads[1];
  expect(call, x.shape.rank() == 3, "x is not [s, b, h]");
  expect_positions(call, table, x.shape[0], sequence);
  return {x.shape[0] * x.shape[1], x.shape[2], x.shape[1],
          expect_elements<S>(call, call.writes[0], x.shape.elements()),
          expect_tensor<S>(call, table, {table.shape[0], x.shape[2]})};
}

/// Expects two tensors of one shape. Calls body(row) with an AddedRows of one row. What is added
/// may be narrower than the sum.
template <typename Body>
void with_addends(KernelCall const& call, Body const& body) {
  Operand const& a = call.reads[0];
  std::int64_t const n = a.shape.elements();
  with_storage_type(call.kind, call.reads[1].type, [&](auto tag) {
    using A = decltype(tag);
    A const* const added = expect_tensor<A>(call, call.reads[1], a.shape);
    auto const add = [&](auto sum) {
      using S = decltype(sum);
      body(AddedRows<S, A>{1, n, 1, expect_elements<S>(call, call.writes[0], n), added});
    };
    if (a.type == element_type<A>()) return add(A{});
    a.type == ElementType::f64 ? add(double{}) : add(Compute<A>{});
  });
}

/// sums[column] += dy[row, column].
template <typename S, typename G>
struct BiasGradientOperands {
  std::int64_t rows;
  std::int64_t columns;
  S const* dy;
  G* sums;
};

template <typename S, typename G>
BiasGradientOperands<S, G> expect_bias_gradient(KernelCall const& call) {
  Operand const& dy = call.reads[0];
  expect(call, dy.shape.rank() > 0 && last_extent(dy) > 0, "dy has no columns");
  std::int64_t const n = last_extent(dy);
  return {dy.shape.elements() / n, n, expect_tensor<S>(call, dy, dy.shape),
          expect_tensor<G>(call, call.writes[0], {n})};
}

/// table[position] += dy[position, sequence], the positions those of the rank's rows.
template <typename S, typename G>
struct PositionsGradientOperands {
  std::int64_t rows;
  std::int64_t sequences;
  std::int64_t columns;
  S const* dy;
  G* table;
};

template <typename S, typename G>
PositionsGradientOperands<S, G> expect_positions_gradient(SequencePart const& sequence,
                                                          KernelCall const& call) {
  Operand const& dy = call.reads[0];
  Operand const& table = call.writes[0];
  expect(call, dy.shape.rank() == 3, "dy is not [s, b, h]");
  expect_positions(call, table, dy.shape[0], sequence);
  return {dy.shape[0], dy.shape[1], dy.shape[2], expect_tensor<S>(call, dy, dy.shape),
          expect_tensor<G>(call, table, {table.shape[0], dy.shape[2]})};
}

}  // namespace stagecraft
