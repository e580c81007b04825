#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

namespace stagecraft {

/// A tensor or view [s, b, heads, d] whose last axis is contiguous.
template <typename S>
struct HeadsView {
  S* data = nullptr;
  std::int64_t position_stride = 0;
  std::int64_t sequence_stride = 0;
  std::int64_t head_stride = 0;

  explicit HeadsView(Operand const& operand)
      : data{elements_of<S>(operand)},
        position_stride{operand.stride(0)},
        sequence_stride{operand.stride(1)},
        head_stride{operand.stride(2)} {}

  /// Rows of a contiguous matrix, as positions of one sequence with one head.
  HeadsView(S* matrix, std::int64_t columns) : data{matrix}, position_stride{columns} {}

  /// The d elements of a head.
  STAGECRAFT_HOST_DEVICE S* head(std::int64_t position,
                                 std::int64_t sequence,
                                 std::int64_t head_index) const {
    return data + position * position_stride + sequence * sequence_stride +
           head_index * head_stride;
  }
};

// The operand checks of kernels on views of heads [s, b, heads, d].

/// Expects two tensors of key and value heads, and two of the same shape but with more heads.
/// Returns the number of query heads per key and value head.
inline std::int64_t expect_groups(KernelCall const& call,
                                  OperandList const& few,
                                  OperandList const& many) {
  Shape const& group = few[0].shape;
  Shape const& full = many[0].shape;
  ElementType const type = few[0].type;
  for (std::size_t i = 0; i < 2; ++i) {
    expect_heads(call, few[i], type, group);
    expect_heads(call, many[i], type, full);
  }
  expect(call,
         group[0] == full[0] && group[1] == full[1] && group[3] == full[3] && group[2] > 0 &&
             full[2] % group[2] == 0,
         "the heads do not fall into groups");
  return full[2] / group[2];
}

/// Expects views whose heads, one view after another, are the columns of the tensor written.
/// Returns the number of columns, the sum of heads * d.
inline std::int64_t expect_joined(KernelCall const& call, ElementType type) {
  Operand const& joined = call.writes[0];
  Shape const& first = call.reads[0].shape;
  expect(call, joined.shape.rank() == 3 && first.rank() == 4, "an operand is of the wrong rank");
  std::int64_t width = 0;
  for (std::size_t i = 0; i < call.reads.size(); ++i) {
    Shape const& part = call.reads[i].shape;
    expect_heads(call, call.reads[i], type, {first[0], first[1], part[2], part[3]});
    width += part[2] * part[3];
  }
  expect_tensor(call, joined, type, {first[0], first[1], width});
  return width;
}

/// Expects q and k, read and written, with heads of an even number of elements.
inline void expect_rotary(KernelCall const& call) {
  for (std::size_t i = 0; i < 2; ++i) {
    Shape const& shape = call.reads[i].shape;
    expect(call, shape.rank() == 4 && shape[3] % 2 == 0,
           "the heads have an odd number of elements");
    expect(call, shape[0] == call.reads[0].shape[0] && shape[3] == call.reads[0].shape[3],
           "q and k do not fit together");
    expect_heads(call, call.reads[i], call.reads[0].type, shape);
    expect_heads(call, call.writes[i], call.reads[0].type, shape);
  }
}

// The operand checks of latent attention's own kernels.

/// Sizes of a call, from its q [s, b, heads, n + r], v [s, b, heads, value] and k_pe [s, b, 1, r].
struct LatentShape {
  std::int64_t s, b, heads;
  std::int64_t nope, rope, value;

  /// Elements of a row of tokens in all operands of one side.
  std::int64_t row_cost() const { return b * heads * (2 * (nope + rope) + value); }
};

/// Expects q, kv and k_pe, which the projections make, and q, k and v, which attention reads. The
/// operands may also be their gradients.
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

// The operand checks of kernels that copy rows and heads, and the orders in which they do.

/// The row of the first operand that becomes row `row` of the second.
struct RowOrder {
  int ranks = 1;          ///< 1: rows stay where they are
  std::int64_t rows = 0;  ///< of each rank
  bool to_sequence = true;

  STAGECRAFT_HOST_DEVICE std::int64_t source_of(std::int64_t row) const {
    if (ranks == 1) return row;
    if (to_sequence) return SequencePart{.ranks = ranks, .zigzag = true}.gathered_row(row, rows);
    SequencePart const part{.rank = static_cast<int>(row / rows), .ranks = ranks, .zigzag = true};
    return part.row_of(row % rows, rows);
  }
};

/// Expects rows that fall into two chunks for each rank.
inline RowOrder row_order(KernelCall const& call) {
  auto const& order = attributes_of<RowOrderAttributes>(call);
  expect(call, call.reads[0].shape.rank() > 0, "it has no rows");
  std::int64_t const all = call.reads[0].shape[0];
  std::int64_t const rows = all / order.ranks;
  expect(call, rows * order.ranks == all && rows % 2 == 0, "the rows do not fall into chunks");
  return {order.ranks, rows, order.to_sequence};
}

/// Expects a contiguous x of any rank, or heads [s, b, heads, d] as a view, and as many contiguous
/// elements in the result. Returns x as [rows, ., ., .].
template <typename S>
Operand copied_rows(KernelCall const& call) {
  Operand const& x = call.reads[0];
  expect_elements(call, call.writes[0], element_type<S>(), x.shape.elements());
  if (x.shape.rank() == 4) {
    expect_heads(call, x, element_type<S>(), x.shape);
    return x;
  }
  expect_tensor(call, x, element_type<S>(), x.shape);
  Operand rows = x;
  std::int64_t const first = x.shape.rank() == 0 ? 1 : x.shape[0];
  rows.shape = {first, 1, 1, x.shape.elements() / std::max<std::int64_t>(first, 1)};
  rows.strides = {};
  return rows;
}

/// Expects a contiguous tensor for zero_fill. Returns its bytes.
inline std::span<std::byte> expect_zero_fill(KernelCall const& call) {
  Operand const& x = call.writes[0];
  expect_elements(call, x, x.type, x.shape.elements());
  return {elements_of<std::byte>(x),
          static_cast<std::size_t>(x.shape.elements() * element_size(x.type))};
}

/// Tokens [s, b, heads, d], or [s, b, width], and parts of their heads [c, s, b, width / c].
struct HeadParts {
  std::int64_t s, b;
  std::int64_t count;                             ///< c
  std::int64_t width;                             ///< of a token in one part, in elements
  std::int64_t position_stride, sequence_stride;  ///< of tokens, in elements
};

/// Expects tokens whose heads are contiguous, and contiguous parts.
inline HeadParts head_parts(KernelCall const& call, Operand const& tokens, Operand const& parts) {
  Shape const& shape = tokens.shape;
  expect(call, shape.rank() == 3 || shape.rank() == 4, "the tokens are not [s, b, heads, d]");
  std::int64_t const s = shape[0];
  std::int64_t const b = shape[1];
  expect(call, s > 0 && b > 0, "there are no tokens");
  std::int64_t const width = shape.elements() / (s * b);
  if (shape.rank() == 4) {
    expect_heads(call, tokens, parts.type, shape);
    expect(call, tokens.stride(2) == shape[3] || shape[2] == 1,
           "the heads of a token are not contiguous");
  } else {
    expect_tensor(call, tokens, parts.type, shape);
  }
  expect_elements(call, parts, tokens.type, shape.elements());
  std::int64_t const count = parts.shape[0] / s;
  expect(call, count > 0 && count * s == parts.shape[0] && width % count == 0,
         "the heads do not fall into parts");
  return {s, b, count, width / count, tokens.stride(0), tokens.stride(1)};
}

}  // namespace stagecraft
