#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/libexec/cuda_ptx/instruction_set.hpp"
#include "tests/libexec/cuda_ptx/warp_registers.hpp"

/// Instructions whose operands all have one type, from operations that are C++ types.
namespace stagecraft::ptx {

template <typename T, typename Operation>
void unary(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  T* const to = warp.lanes<T>(one.slots[0]);
  T const* const a = warp.lanes<T>(one.slots[1]);
  for_lanes(lanes, [&](int lane) { to[lane] = Operation{}(a[lane]); });
}

template <typename T, typename Operation>
void binary(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  T* const to = warp.lanes<T>(one.slots[0]);
  T const* const a = warp.lanes<T>(one.slots[1]);
  T const* const b = warp.lanes<T>(one.slots[2]);
  for_lanes(lanes, [&](int lane) { to[lane] = Operation{}(a[lane], b[lane]); });
}

template <typename T, typename Operation>
void ternary(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  T* const to = warp.lanes<T>(one.slots[0]);
  T const* const a = warp.lanes<T>(one.slots[1]);
  T const* const b = warp.lanes<T>(one.slots[2]);
  T const* const c = warp.lanes<T>(one.slots[3]);
  for_lanes(lanes, [&](int lane) { to[lane] = Operation{}(a[lane], b[lane], c[lane]); });
}

/// Calls body(T{}) with the C++ type.
template <typename Body>
Execute of_float(Form const& form, Type type, Body const& body) {
  if (type == Type{'f', 32}) return body(float{});
  if (type == Type{'f', 64}) return body(double{});
  form.refuse("a type that this interpreter does not know here");
}
template <typename Body>
Execute of_integer(Form const& form, Type type, Body const& body) {
  bool const is_signed = type.kind == 's';
  if (type.kind == 'f') form.refuse("a type that this interpreter does not know here");
  if (type.bits == 16) return is_signed ? body(std::int16_t{}) : body(std::uint16_t{});
  if (type.bits == 32) return is_signed ? body(std::int32_t{}) : body(std::uint32_t{});
  if (type.bits == 64) return is_signed ? body(std::int64_t{}) : body(std::uint64_t{});
  form.refuse("a type that this interpreter does not know here");
}
/// The same for operations that do not care for signs, in which C++ does not define overflows.
template <typename Body>
Execute of_bits(Form const& form, Type type, Body const& body) {
  return of_integer(form, {'u', type.bits}, body);
}

/// A result and `count` - 1 values of so many bits.
inline void take_operands(Form& form, Instruction& made, int bits, std::size_t count) {
  form.finish(count);
  made.slots[0] = form.result(0, bits);
  for (std::size_t i = 1; i < count; ++i) made.slots[i] = form.value(i, bits);
}

}  // namespace stagecraft::ptx
