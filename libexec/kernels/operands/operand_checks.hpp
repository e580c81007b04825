#pragma once

#include "libexec/kernels/kernel_call.hpp"

/// The checks of operands before a kernel runs: a few comparisons per call.
namespace stagecraft {

/// \throws std::logic_error  "<kind>: <why>".
[[noreturn]] void refuse(OpKind kind, char const* why);

/// \throws std::logic_error  naming the call's kind, unless `holds`.
inline void expect(KernelCall const& call, bool holds, char const* otherwise) {
  if (!holds) refuse(call.kind, otherwise);
}

/// Expects the attributes of the kind, the operands that its line in op_kinds.def names, and the
/// same operand read and written if it is updated in place. Every backend calls it before its
/// kernel.
void expect_operands(KernelCall const& call);

/// Expects a contiguous operand of this type and shape.
void expect_tensor(KernelCall const& call,
                   Operand const& operand,
                   ElementType type,
                   Shape const& shape);

/// Expects a contiguous operand of this type with this number of elements.
void expect_elements(KernelCall const& call,
                     Operand const& operand,
                     ElementType type,
                     std::int64_t elements);

/// Expects a tensor or view [s, b, heads, d] of this type whose last axis is contiguous.
void expect_heads(KernelCall const& call,
                  Operand const& operand,
                  ElementType type,
                  Shape const& shape);

/// Expects a table [positions, .] with a row for each of the rank's `rows` of the sequence.
void expect_positions(KernelCall const& call,
                      Operand const& table,
                      std::int64_t rows,
                      SequencePart const& sequence);

/// Whether the elements are adjacent in memory.
bool is_contiguous(Operand const& operand);

/// The extent of the last axis. Pre: the rank is above 0.
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
