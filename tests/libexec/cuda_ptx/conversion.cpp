// Moves and conversions: PTX ISA 9.0, 9.7.9.
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tests/libexec/cuda_ptx/block_memory.hpp"
#include "tests/libexec/cuda_ptx/instruction_set.hpp"
#include "tests/libexec/cuda_ptx/narrow_float.hpp"
#include "tests/libexec/cuda_ptx/warp_registers.hpp"

namespace stagecraft::ptx {
namespace {

template <typename T>
void copy(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  T* const to = warp.lanes<T>(one.slots[0]);
  T const* const from = warp.lanes<T>(one.slots[1]);
  for_lanes(lanes, [&](int lane) { to[lane] = from[lane]; });
}

/// mov.b64 %rd, {%r1, %r2}: the first is the lowest.
void pack(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  std::size_t const part = one.slot_bytes[1];
  std::size_t const whole = one.slot_bytes[0];
  for_lanes(lanes, [&](int lane) {
    auto const at = static_cast<std::size_t>(lane);
    for (std::size_t i = 0; i < one.count; ++i) {
      std::memcpy(warp.bytes + one.slots[0] + at * whole + i * part,
                  warp.bytes + one.slots[1 + i] + at * part, part);
    }
  });
}

void unpack(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  std::size_t const part = one.slot_bytes[1];
  std::size_t const whole = one.slot_bytes[0];
  for_lanes(lanes, [&](int lane) {
    auto const at = static_cast<std::size_t>(lane);
    for (std::size_t i = 0; i < one.count; ++i) {
      std::memcpy(warp.bytes + one.slots[i] + at * part,
                  warp.bytes + one.slots[one.count] + at * whole + i * part, part);
    }
  });
}

template <bool to_generic>
void change_space(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  auto* const to = warp.lanes<std::uint64_t>(one.slots[0]);
  auto const* const from = warp.lanes<std::uint64_t>(one.slots[1]);
  std::uint64_t const window = one.space == Space::shared  ? shared_window
                               : one.space == Space::local ? local_window
                                                           : 0;
  for_lanes(lanes, [&](int lane) {
    if (!to_generic && from[lane] - window >= shared_window) {
      throw Fault{"a generic address that is not of the space it is turned into"};
    }
    to[lane] = to_generic ? from[lane] + window : from[lane] - window;
  });
}

enum class Rounding { none, saturated, nearest, zero, down, up };

template <typename T>
T rounded(T value, Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest:
      return std::nearbyint(value);
    case Rounding::zero:
      return std::trunc(value);
    case Rounding::down:
      return std::floor(value);
    case Rounding::up:
      return std::ceil(value);
    default:
      return value;
  }
}

/// Beyond what the type holds, its least or its greatest value; 0 for NaN.
template <typename To, typename From>
To integer_of(From value) {
  if (std::isnan(value)) return 0;
  // The least is a power of two or 0, and exact; so is what follows the greatest.
  auto const least = static_cast<From>(std::numeric_limits<To>::min());
  From const beyond = std::ldexp(From{1}, std::numeric_limits<To>::digits);
  if (value <= least) return std::numeric_limits<To>::min();
  if (value >= beyond) return std::numeric_limits<To>::max();
  return static_cast<To>(value);
}

template <typename To, typename From>
To converted(From value, Rounding rounding) {
  if constexpr (std::is_floating_point_v<From>) {
    From const whole = rounded(value, rounding);
    if constexpr (std::is_integral_v<To>) {
      return integer_of<To>(whole);
    } else {
      auto const result = static_cast<To>(whole);
      if (rounding != Rounding::saturated) return result;
      // NaN becomes 0.
      return result > 0 ? (result < 1 ? result : To{1}) : To{0};
    }
  } else {
    return static_cast<To>(value);
  }
}

/// Registers may be wider than what is read from them, or written to them (with zeros or the sign).
template <typename To, typename From>
void convert(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  std::size_t const wide = one.slot_bytes[0];
  std::size_t const from_wide = one.slot_bytes[1];
  auto const rounding = static_cast<Rounding>(one.offset);
  for_lanes(lanes, [&](int lane) {
    auto const at = static_cast<std::size_t>(lane);
    From value{};
    std::memcpy(&value, warp.bytes + one.slots[1] + at * from_wide, sizeof value);
    To const result = converted<To>(value, rounding);
    std::byte* const to = warp.bytes + one.slots[0] + at * wide;
    if constexpr (std::is_integral_v<To>) {
      auto const extended = static_cast<std::int64_t>(result);
      std::memcpy(to, &extended, wide);
    } else {
      std::memcpy(to, &result, wide);
    }
  });
}

template <typename Body>
Execute of_type(Form const& form, Type type, Body const& body) {
  if (type == Type{'f', 32}) return body(float{});
  if (type == Type{'f', 64}) return body(double{});
  bool const is_signed = type.kind == 's';
  if (type.kind != 's' && type.kind != 'u') form.refuse("an unknown type");
  switch (type.bits) {
    case 8:
      return is_signed ? body(std::int8_t{}) : body(std::uint8_t{});
    case 16:
      return is_signed ? body(std::int16_t{}) : body(std::uint16_t{});
    case 32:
      return is_signed ? body(std::int32_t{}) : body(std::uint32_t{});
    default:
      return is_signed ? body(std::int64_t{}) : body(std::uint64_t{});
  }
}

/// Rounding that says what the types need anyway: to the nearest for less exact floating point and
/// from integers; and rounding to integers.
Rounding take_rounding(Form& form, Type to, Type from) {
  bool const is_to_float = to.kind == 'f';
  bool const is_from_float = from.kind == 'f';
  if (form.take("sat")) {
    if (!is_to_float || !is_from_float || to.bits < from.bits) form.refuse("an unknown saturation");
    return Rounding::saturated;
  }
  bool const to_nearest = form.take("rn");
  bool const needs_nearest = is_to_float && (!is_from_float || to.bits < from.bits);
  if (to_nearest != needs_nearest) form.refuse("an unknown rounding");
  Rounding const rounding = form.take("rni")   ? Rounding::nearest
                            : form.take("rzi") ? Rounding::zero
                            : form.take("rmi") ? Rounding::down
                            : form.take("rpi") ? Rounding::up
                                               : Rounding::none;
  if (!is_from_float && rounding != Rounding::none) form.refuse("an unknown rounding");
  if (is_from_float && !is_to_float && rounding == Rounding::none) form.refuse("no rounding");
  return rounding;
}

template <typename Format, typename T>
void widen(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  T* const to = warp.lanes<T>(one.slots[0]);
  auto const* const from = warp.lanes<std::uint16_t>(one.slots[1]);
  for_lanes(lanes, [&](int lane) { to[lane] = static_cast<T>(Format::value(from[lane])); });
}

template <typename Format, typename T>
void narrow(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  auto* const to = warp.lanes<std::uint16_t>(one.slots[0]);
  T const* const from = warp.lanes<T>(one.slots[1]);
  for_lanes(lanes, [&](int lane) { to[lane] = Format::nearest(static_cast<double>(from[lane])); });
}

/// To or from a format of 16 bits.
template <typename Format>
void make_narrow_conversion(Form& form, Instruction& made) {
  bool const is_narrowing = form.take("rn");
  Type const other = form.take_type();
  if (other.kind != 'f') form.refuse("an unknown conversion");
  form.finish(2);
  if (is_narrowing) {
    made.execute = other.bits == 32 ? &narrow<Format, float> : &narrow<Format, double>;
    made.slots = {form.result(0, 16), form.value(1, other.bits)};
  } else {
    made.execute = other.bits == 32 ? &widen<Format, float> : &widen<Format, double>;
    made.slots = {form.result(0, other.bits), form.value(1, 16)};
  }
}

void make_conversion_of_types(Form& form, Instruction& made) {
  if (form.take("f16")) return make_narrow_conversion<Float16Format>(form, made);
  if (form.take("bf16")) return make_narrow_conversion<BFloat16Format>(form, made);
  Type const to = form.take_type();
  Type const from = form.take_type();
  made.offset = static_cast<std::int64_t>(take_rounding(form, to, from));
  form.finish(2);
  Operand const result = form.decoder().any(form.operand(0), to.bits);
  Operand const value = form.decoder().any(form.operand(1), from.bits);
  bool const fits = to.kind == 'f' ? result.type.bits == to.bits : result.type.bits >= to.bits;
  if (!fits || value.type.bits < from.bits) form.refuse("a register that is too small");
  made.slots = {result.slot, value.slot};
  made.slot_bytes = {static_cast<std::uint8_t>(result.type.bytes()),
                     static_cast<std::uint8_t>(value.type.bytes())};
  made.execute = of_type(form, to, [&](auto t) {
    return of_type(form, from,
                   [](auto f) -> Execute { return &convert<decltype(t), decltype(f)>; });
  });
}

void make_move(Form& form, Instruction& made) {
  Type const type = form.take_type();
  form.finish(2);
  std::vector<std::string> const to = parts_of(form.operand(0));
  std::vector<std::string> const from = parts_of(form.operand(1));
  std::size_t const parts = std::max(to.size(), from.size());
  if (parts > 4 || (to.size() > 1 && from.size() > 1)) form.refuse("an unknown move");
  int const part = type.bits / static_cast<int>(parts);
  made.count = static_cast<std::uint8_t>(parts);
  made.slot_bytes = {static_cast<std::uint8_t>(type.bytes()), static_cast<std::uint8_t>(part / 8)};
  std::size_t at = 0;
  for (auto const& one : to) {
    made.slots[at++] = form.decoder().result(one, to.size() > 1 ? part : type.bits);
  }
  for (auto const& one : from) {
    made.slots[at++] = form.decoder().value(one, from.size() > 1 ? part : type.bits);
  }
  if (to.size() > 1) {
    made.execute = &unpack;
  } else if (from.size() > 1) {
    made.execute = &pack;
  } else if (type.bits == 16) {
    made.execute = &copy<std::uint16_t>;
  } else if (type.bits == 32) {
    made.execute = &copy<std::uint32_t>;
  } else if (type.bits == 64) {
    made.execute = &copy<std::uint64_t>;
  } else {
    form.refuse("an unknown type");
  }
}

}  // namespace

bool make_conversion(Form& form, Instruction& made) {
  if (form.name() == "mov") {
    make_move(form, made);
    return true;
  }
  if (form.name() == "cvt") {
    make_conversion_of_types(form, made);
    return true;
  }
  if (form.name() == "cvta") {
    made.execute = form.take("to") ? &change_space<false> : &change_space<true>;
    std::string const space = form.take_one_of({"global", "shared", "local"});
    made.space = space == "shared"  ? Space::shared
                 : space == "local" ? Space::local
                                    : Space::global;
    form.require("u64");
    form.finish(2);
    made.slots = {form.result(0, 64), form.value(1, 64)};
    return true;
  }
  return false;
}

}  // namespace stagecraft::ptx
