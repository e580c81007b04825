// Operations on bits: PTX ISA 9.0, 9.7.1 and 9.7.8.
#include <algorithm>
#include <bit>
#include <type_traits>

#include "tests/libexec/cuda_ptx/typed_execution.hpp"

namespace stagecraft::ptx {
namespace {

struct And {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct ExclusiveOr {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <typename T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
};
/// Shifts by as much as there are bits, or more, leave zeros, or copies of the sign.
template <typename T, bool is_left>
void shift(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  T* const to = warp.lanes<T>(one.slots[0]);
  T const* const a = warp.lanes<T>(one.slots[1]);
  std::uint32_t const* const b = warp.lanes<std::uint32_t>(one.slots[2]);
  for_lanes(lanes, [&](int lane) {
    constexpr std::uint32_t bits = 8 * sizeof(T);
    std::uint32_t const by = b[lane];
    if (is_left) {
      to[lane] = by >= bits ? T{0} : static_cast<T>(a[lane] << by);
    } else {
      T const all = std::is_signed_v<T> && a[lane] < 0 ? static_cast<T>(-1) : T{0};
      to[lane] = by >= bits ? all : static_cast<T>(a[lane] >> by);
    }
  });
}

/// bfi.b32: the low bits of a into b.
void insert_bits(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  auto* const to = warp.lanes<std::uint32_t>(one.slots[0]);
  auto const* const a = warp.lanes<std::uint32_t>(one.slots[1]);
  auto const* const b = warp.lanes<std::uint32_t>(one.slots[2]);
  auto const* const first = warp.lanes<std::uint32_t>(one.slots[3]);
  auto const* const length = warp.lanes<std::uint32_t>(one.slots[4]);
  for_lanes(lanes, [&](int lane) {
    std::uint32_t const at = first[lane] & 0xFFU;
    std::uint32_t const bits = length[lane] & 0xFFU;
    std::uint64_t const mask = ((std::uint64_t{1} << std::min(bits, 32U)) - 1) << std::min(at, 32U);
    std::uint64_t const moved = std::uint64_t{a[lane]} << std::min(at, 32U);
    to[lane] = static_cast<std::uint32_t>((b[lane] & ~mask) | (moved & mask));
  });
}

/// prmt.b32 in its default mode: each nibble of c picks a byte of {b, a}, or copies of its sign.
void permute_bytes(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  auto* const to = warp.lanes<std::uint32_t>(one.slots[0]);
  auto const* const a = warp.lanes<std::uint32_t>(one.slots[1]);
  auto const* const b = warp.lanes<std::uint32_t>(one.slots[2]);
  auto const* const c = warp.lanes<std::uint32_t>(one.slots[3]);
  for_lanes(lanes, [&](int lane) {
    std::uint64_t const from = std::uint64_t{b[lane]} << 32 | a[lane];
    std::uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
      std::uint32_t const selector = c[lane] >> (4 * i);
      auto byte = static_cast<std::uint32_t>(from >> (8 * (selector & 7U)) & 0xFFU);
      if ((selector & 8U) != 0) byte = (byte & 0x80U) != 0 ? 0xFFU : 0U;
      result |= byte << (8 * i);
    }
    to[lane] = result;
  });
}

template <typename T>
void count_leading_zeros(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  auto* const to = warp.lanes<std::uint32_t>(one.slots[0]);
  T const* const a = warp.lanes<T>(one.slots[1]);
  for_lanes(lanes,
            [&](int lane) { to[lane] = static_cast<std::uint32_t>(std::countl_zero(a[lane])); });
}

bool make_logic_or_shift(Form& form, Instruction& made) {
  std::string const& name = form.name();
  bool const is_shift = name == "shl" || name == "shr";
  if (!is_shift && name != "and" && name != "or" && name != "xor" && name != "not") {
    return false;
  }
  Type const type = form.take_type();
  if (is_shift) {
    bool const is_left = name == "shl";
    made.execute =
        is_left
            ? of_bits(form, type, [](auto t) -> Execute { return &shift<decltype(t), true>; })
            : of_integer(form, type, [](auto t) -> Execute { return &shift<decltype(t), false>; });
    form.finish(3);
    made.slots = {form.result(0, type.bits), form.value(1, type.bits), form.value(2, 32)};
    return true;
  }
  if (name == "not") {
    made.execute = of_bits(form, type, [](auto t) -> Execute { return &unary<decltype(t), Not>; });
    take_operands(form, made, type.bits, 2);
    return true;
  }
  made.execute = of_integer(form, type, [&](auto t) -> Execute {
    using T = decltype(t);
    if (name == "and") return &binary<T, And>;
    if (name == "or") return &binary<T, Or>;
    return &binary<T, ExclusiveOr>;
  });
  take_operands(form, made, type.bits, 3);
  return true;
}

bool make_other(Form& form, Instruction& made) {
  bool const inserts = form.name() == "bfi";
  if (inserts || form.name() == "prmt") {
    form.require("b32");
    made.execute = inserts ? &insert_bits : &permute_bytes;
    take_operands(form, made, 32, inserts ? 5 : 4);
  } else if (form.name() == "clz") {
    Type const type = form.take_type();
    made.execute =
        type.bits == 64 ? &count_leading_zeros<std::uint64_t> : &count_leading_zeros<std::uint32_t>;
    form.finish(2);
    made.slots = {form.result(0, 32), form.value(1, type.bits)};
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool make_bit_operation(Form& form, Instruction& made) {
  return make_logic_or_shift(form, made) || make_other(form, made);
}

}  // namespace stagecraft::ptx
