#pragma once

#include <cstddef>
#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

/// The operand checks of kernels on results of attention, contexts [s, b, heads d] and the
/// logarithms of their sums of exponentials [b, heads, s].
namespace stagecraft {

struct ContextShape {
  std::int64_t s, b, heads, d;

  std::int64_t tokens() const { return s * b; }
  std::int64_t width() const { return heads * d; }
};

/// Expects a context of as many rows as the sums have.
template <typename S>
ContextShape context_shape(KernelCall const& call, Operand const& context, Operand const& sums) {
  expect(call, context.shape.rank() == 3 && sums.shape.rank() == 3,
         "a context is not [s, b, h] or sums are not [b, heads, s]");
  std::int64_t const heads = sums.shape[1];
  expect(call, heads > 0 && context.shape[2] % heads == 0, "rows do not fall into heads");
  ContextShape const shape{context.shape[0], context.shape[1], heads, context.shape[2] / heads};
  expect_tensor(call, context, element_type<S>(), context.shape);
  expect_tensor(call, sums, element_type<Compute<S>>(), {shape.b, heads, shape.s});
  return shape;
}

/// A part of attention that is rescaled to the sums of all keys.
struct RescaledPart {
  ContextShape shape;
  Operand part, part_sums, sums;
};

/// \param adds  whether the context is read first, and added to
template <typename S>
RescaledPart rescaled_part(KernelCall const& call, bool adds) {
  std::size_t const first = adds ? 1 : 0;
  RescaledPart const all{context_shape<S>(call, call.reads[first], call.reads[first + 2]),
                         call.reads[first], call.reads[first + 1], call.reads[first + 2]};
  expect_tensor(call, call.writes[0], element_type<S>(), all.part.shape);
  expect_tensor(call, all.part_sums, element_type<Compute<S>>(), all.sums.shape);
  return all;
}

/// Expects what the gradient of sinks [heads] is made of.
template <typename S>
ContextShape sinks_shape(KernelCall const& call) {
  ContextShape const shape = context_shape<S>(call, call.reads[1], call.reads[2]);
  expect_tensor(call, call.reads[0], element_type<S>(), call.reads[1].shape);
  expect_tensor(call, call.reads[3], element_type<S>(), {shape.heads});
  expect_tensor(call, call.writes[0], element_type<Compute<S>>(), {shape.heads});
  return shape;
}

}  // namespace stagecraft
