#pragma once

#include <algorithm>
#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

/// The operand checks of kernels that copy rows and heads, and the orders in which they do.
namespace stagecraft {

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
