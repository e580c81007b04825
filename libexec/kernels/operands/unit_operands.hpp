#pragma once

#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

/// The operands of the kernels of sharded units, and their checks.
namespace stagecraft {

/// Elements that follow each other in both tensors, which may differ in type.
template <typename From, typename To>
struct CopiedPart {
  std::int64_t count;
  From const* from;
  To* to;
};

/// Calls body(part) with a CopiedPart of each tensor that is read: they follow each other in the
/// one that is written, which may have more elements behind them.
template <typename Body>
void for_copied_parts(KernelCall const& call, Body const& body) {
  Operand const& whole = call.writes[0];
  expect(call, is_contiguous(whole), "the whole is a view, but must be contiguous");
  std::int64_t offset = 0;
  for (Operand const& part : call.reads) {
    std::int64_t const count = part.shape.elements();
    expect(call, offset + count <= whole.shape.elements(), "the parts are more than the whole");
    with_storage_type(call.kind, part.type, [&](auto from) {
      using From = decltype(from);
      From const* const source = expect_elements<From>(call, part, count);
      with_storage_type(call.kind, whole.type, [&](auto to) {
        using To = decltype(to);
        body(CopiedPart<From, To>{count, source, elements_of<To>(whole) + offset});
      });
    });
    offset += count;
  }
}

/// An element in another type: rounded once, in that of its own computations.
template <typename To, typename From>
STAGECRAFT_HOST_DEVICE To converted(From x) {
  return narrow<To>(static_cast<Compute<To>>(widen(x)));
}

/// Calls body(G{}) for the type of a weight's gradient: that of sums, or of a sharded unit's
/// gradient, which has the type of the activations S.
template <typename S, typename Body>
void with_gradient_type(KernelCall const& call, Operand const& gradient, Body const& body) {
  if (gradient.type == element_type<S>()) {
    body(S{});
  } else {
    expect(call, gradient.type == element_type<Compute<S>>(), "a gradient is of the wrong type");
    body(Compute<S>{});
  }
}

/// Adds to an element of a gradient, which is rounded to its type.
template <typename G>
STAGECRAFT_HOST_DEVICE void add_to(G& sum, Compute<G> value) {
  sum = narrow<G>(widen(sum) + value);
}

}  // namespace stagecraft
