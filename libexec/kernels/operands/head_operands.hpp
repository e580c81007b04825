#pragma once

#include <cstddef>
#include <cstdint>

#include "libexec/kernels/operands/operand_checks.hpp"

/// The operand checks of kernels on views of heads [s, b, heads, d].
namespace stagecraft {

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

}  // namespace stagecraft
