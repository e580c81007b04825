#pragma once

#include "libexec/kernels/kernel_call.hpp"

/// What kernels ask of their operands before they run: a few comparisons a call.
namespace stagecraft {

/// \throws std::logic_error  "<kind>: <why>".
[[noreturn]] void refuse(OpKind kind, char const* why);

/// \throws std::logic_error  naming the call's kind, unless `holds`.
inline void expect(KernelCall const& call, bool holds, char const* otherwise) {
  if (!holds) refuse(call.kind, otherwise);
}

/// Expects the attributes of the kind, and as many operands as the kind's line in op_kinds.def
/// names, the same ones read and written if it works in place. Checked once for every backend,
/// before its kernel is called.
void expect_operands(KernelCall const& call);

/// Expects an operand that is contiguous, of this type and shape.
void expect_tensor(KernelCall const& call,
                   Operand const& operand,
                   ElementType type,
                   Shape const& shape);

/// Expects an operand of this type with as many elements, contiguous.
void expect_elements(KernelCall const& call,
                     Operand const& operand,
                     ElementType type,
                     std::int64_t elements);

/// Expects a tensor or view [s, b, heads, d] of this type whose last axis is contiguous.
void expect_heads(KernelCall const& call,
                  Operand const& operand,
                  ElementType type,
                  Shape const& shape);

/// Whether elements lie one after another.
bool is_contiguous(Operand const& operand);

/// Extent of the last axis. Pre: rank above 0.
inline std::int64_t last_extent(Operand const& operand) {
  return operand.shape[operand.shape.rank() - 1];
}

/// The attributes of a call. Pre: expect_operands() holds, and the kind has attributes of this
/// type.
template <typename Attributes>
Attributes const& attributes_of(KernelCall const& call) {
  return std::get<Attributes>(call.attributes);
}

template <typename S>
S* elements_of(Operand const& operand) {
  return static_cast<S*>(operand.data);
}

}  // namespace stagecraft
