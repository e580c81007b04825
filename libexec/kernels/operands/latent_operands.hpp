#pragma once

#include <algorithm>
#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

/// The operand checks of latent attention's own kernels.
namespace stagecraft {

/// Sizes of a call, from its q [s, b, heads, n + r], v [s, b, heads, value] and k_pe [s, b, 1, r].
struct LatentShape {
  std::int64_t s, b, heads;
  std::int64_t nope, rope, value;

  /// Elements of a token in the operands before, or behind.
  std::int64_t row_cost() const { return b * heads * (2 * (nope + rope) + value); }
};

/// Expects what comes of the projections, q, kv and k_pe, and what attention reads, q, k and v;
/// these operands may also be their gradients.
template <typename S>
LatentShape latent_shape(KernelCall const& call,
                         OperandList const& up,
                         OperandList const& by_head) {
  Shape const& q = up[0].shape;
  Shape const& k_pe = up[2].shape;
  expect(call, q.rank() == 4 && k_pe.rank() == 4 && by_head[2].shape.rank() == 4,
         "an operand is not [s, b, heads, d]");
  LatentShape const shape{q[0], q[1], q[2], q[3] - k_pe[3], k_pe[3], by_head[2].shape[3]};
  expect(call, shape.nope > 0 && shape.rope > 0 && shape.rope % 2 == 0,
         "the rotary part does not fit into a head, or is odd");
  ElementType const type = element_type<S>();
  expect_heads(call, up[0], type, q);
  expect_heads(call, up[1], type, {shape.s, shape.b, shape.heads, shape.nope + shape.value});
  expect_heads(call, up[2], type, {shape.s, shape.b, 1, shape.rope});
  expect_heads(call, by_head[0], type, q);
  expect_heads(call, by_head[1], type, q);
  expect_heads(call, by_head[2], type, {shape.s, shape.b, shape.heads, shape.value});
  return shape;
}

/// Rows of two tensors side by side.
struct JoinedColumns {
  std::int64_t rows;
  std::int64_t left, right;  ///< columns of each
};

/// Expects a and b with columns, and what joins them.
template <typename S>
JoinedColumns joined_columns(KernelCall const& call,
                             Operand const& a,
                             Operand const& b,
                             Operand const& joined) {
  expect(call, a.shape.rank() > 0 && b.shape.rank() > 0, "an operand has no columns");
  std::int64_t const left = last_extent(a);
  std::int64_t const right = last_extent(b);
  std::int64_t const rows = a.shape.elements() / std::max<std::int64_t>(left, 1);
  expect_elements(call, a, element_type<S>(), rows * left);
  expect_elements(call, b, element_type<S>(), rows * right);
  expect_elements(call, joined, element_type<S>(), rows * (left + right));
  return {rows, left, right};
}

}  // namespace stagecraft
