// Arithmetic of integers and of floating point, and operations on bits: PTX ISA 9.0, 9.7.1 to 9.7.3
// and 9.7.8. Floating point rounds as the host does, which is IEEE 754 to the nearest. What a
// device approximates is computed exactly here and rounded.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tests/libexec/cuda_ptx/instruction_set.hpp"
#include "tests/libexec/cuda_ptx/warp_registers.hpp"

namespace stagecraft::ptx {
namespace {

// Operations are types, so that each has a loop of its own. (Integers narrower than int come back
// from int.)
struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};
struct Subtract {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a - b);
  }
};
struct Multiply {
  template <typename T>
  T operator()(T a, T b) const {
    // Of unsigned short, int would overflow.
    using Wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
    return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
  }
};
/// By 0 a device has no defined quotient, and does not stop.
struct Divide {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return static_cast<T>(-1);
      if (std::is_signed_v<T> && b == static_cast<T>(-1))
        return static_cast<T>(0 - std::make_unsigned_t<T>(a));
    }
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <typename T>
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
/// Of a number and NaN, the number; -0 is less than +0.
struct Minimum {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a)) return b;
      if (a == b) return std::signbit(a) ? a : b;
      if (std::isnan(b)) return a;
    }
    return b < a ? b : a;
  }
};
struct Maximum {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a)) return b;
      if (a == b) return std::signbit(a) ? b : a;
      if (std::isnan(b)) return a;
    }
    return a < b ? b : a;
  }
};
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
/// Of up to 32 bits.
struct MultiplyHigh {
  template <typename T>
  T operator()(T a, T b) const {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b) >> (8 * sizeof(T)));
  }
};
struct Negate {
  template <typename T>
  T operator()(T a) const {
    if constexpr (std::is_floating_point_v<T>) {
      return -a;
    } else {
      return static_cast<T>(0 - std::make_unsigned_t<T>(a));
    }
  }
};
struct Absolute {
  template <typename T>
  T operator()(T a) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fabs(a);
    } else {
      return a < 0 ? Negate{}(a) : a;
    }
  }
};
struct Not {
  template <typename T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
};
struct SquareRoot {
  template <typename T>
  T operator()(T a) const {
    return std::sqrt(a);
  }
};
struct Reciprocal {
  template <typename T>
  T operator()(T a) const {
    return T{1} / a;
  }
};
/// rcp.approx.ftz.f64: the upper word of the result only.
struct RoughReciprocal {
  double operator()(double a) const {
    double const exact = std::fpclassify(a) == FP_SUBNORMAL ? std::copysign(INFINITY, a) : 1 / a;
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(exact) & 0xFFFFFFFF00000000U);
  }
};
/// ex2.approx.ftz.f32
struct PowerOfTwo {
  float operator()(float a) const {
    float const result = static_cast<float>(std::exp2(static_cast<double>(a)));
    return std::fpclassify(result) == FP_SUBNORMAL ? 0.F : result;
  }
};
struct FusedMultiplyAdd {
  template <typename T>
  T operator()(T a, T b, T c) const {
    return std::fma(a, b, c);
  }
};
struct MultiplyAdd {
  template <typename T>
  T operator()(T a, T b, T c) const {
    return static_cast<T>(Multiply{}(a, b) + c);
  }
};

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

/// fma.rm: towards minus infinity.
template <typename T>
void fused_multiply_add_down(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  int const before = std::fegetround();
  std::fesetround(FE_DOWNWARD);
  ternary<T, FusedMultiplyAdd>(warp, one, lanes);
  std::fesetround(before);
}

/// mul.wide
template <typename T, typename Wide>
void multiply_wide(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  Wide* const to = warp.lanes<Wide>(one.slots[0]);
  T const* const a = warp.lanes<T>(one.slots[1]);
  T const* const b = warp.lanes<T>(one.slots[2]);
  for_lanes(lanes, [&](int lane) {
    to[lane] = static_cast<Wide>(static_cast<Wide>(a[lane]) * static_cast<Wide>(b[lane]));
  });
}

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

// Arithmetic in several words: what the instruction keeps says how.
constexpr std::int64_t is_subtraction = 1;
constexpr std::int64_t is_product = 2;
constexpr std::int64_t is_high = 4;
constexpr std::int64_t reads_carry = 8;
constexpr std::int64_t writes_carry = 16;

void with_carry(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  std::int64_t const how = one.offset;
  auto* const to = warp.lanes<std::uint32_t>(one.slots[0]);
  auto const* const a = warp.lanes<std::uint32_t>(one.slots[1]);
  auto const* const b = warp.lanes<std::uint32_t>(one.slots[2]);
  auto const* const c = warp.lanes<std::uint32_t>(one.slots[3]);
  for_lanes(lanes, [&](int lane) {
    std::uint64_t const carry = (how & reads_carry) != 0 ? warp.carry >> lane & 1U : 0;
    std::uint64_t left = a[lane];
    std::uint64_t right = b[lane];
    if ((how & is_product) != 0) {
      left *= right;
      left = (how & is_high) != 0 ? left >> 32 : left & 0xFFFFFFFFU;
      right = c[lane];
    }
    std::uint64_t const sum =
        (how & is_subtraction) != 0 ? left - right - carry : left + right + carry;
    to[lane] = static_cast<std::uint32_t>(sum);
    if ((how & writes_carry) != 0) {
      std::uint32_t const bit = std::uint32_t{1} << lane;
      warp.carry = (sum >> 32) != 0 ? warp.carry | bit : warp.carry & ~bit;
    }
  });
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

template <typename Operation>
Execute binary_of_any(Form const& form, Type type, bool ignores_sign) {
  auto const make = [](auto t) -> Execute { return &binary<decltype(t), Operation>; };
  if (type.kind == 'f') return of_float(form, type, make);
  return ignores_sign ? of_bits(form, type, make) : of_integer(form, type, make);
}

void take_operands(Form& form, Instruction& made, int bits, std::size_t count) {
  form.finish(count);
  made.slots[0] = form.result(0, bits);
  for (std::size_t i = 1; i < count; ++i) made.slots[i] = form.value(i, bits);
}

bool make_with_carry(Form& form, Instruction& made) {
  std::string const& name = form.name();
  bool const reads = name == "addc" || name == "subc" || name == "madc";
  bool const is_one = reads || name == "add" || name == "sub" || name == "mad";
  if (!is_one) return false;
  bool const writes = form.take("cc");
  if (!reads && !writes) return false;
  if (name.rfind("sub", 0) == 0) made.offset |= is_subtraction;
  if (name.rfind("mad", 0) == 0) {
    made.offset |= is_product;
    if (form.take_one_of({"lo", "hi"}) == "hi") made.offset |= is_high;
  }
  if (reads) made.offset |= reads_carry;
  if (writes) made.offset |= writes_carry;
  Type const type = form.take_type();
  if (type.bits != 32 || type.kind == 'f') form.refuse("a carry of 32-bit integers only");
  made.execute = &with_carry;
  take_operands(form, made, 32, (made.offset & is_product) != 0 ? 4 : 3);
  return true;
}

bool make_product(Form& form, Instruction& made) {
  bool const is_sum = form.name() == "mad";
  if (form.name() != "mul" && !is_sum) return false;
  bool const is_wide = form.take("wide");
  bool const is_upper = form.take("hi");
  bool const is_lower = form.take("lo");
  bool const is_rounded = form.take("rn");
  Type const type = form.take_type();
  if (type.kind == 'f') {
    if (is_sum || is_wide || is_upper || is_lower) form.refuse("an unknown product");
    made.execute = binary_of_any<Multiply>(form, type, false);
  } else if (is_rounded || (is_sum && !is_lower)) {
    form.refuse("an unknown product");
  } else if (is_wide) {
    bool const is_signed = type.kind == 's';
    if (type.bits == 16) {
      made.execute = is_signed ? &multiply_wide<std::int16_t, std::int32_t>
                               : &multiply_wide<std::uint16_t, std::uint32_t>;
    } else if (type.bits == 32) {
      made.execute = is_signed ? &multiply_wide<std::int32_t, std::int64_t>
                               : &multiply_wide<std::uint32_t, std::uint64_t>;
    } else {
      form.refuse("an unknown product");
    }
    form.finish(3);
    made.slots[0] = form.result(0, 2 * type.bits);
    made.slots[1] = form.value(1, type.bits);
    made.slots[2] = form.value(2, type.bits);
    return true;
  } else if (is_upper) {
    if (type.bits != 32) form.refuse("an unknown product");
    made.execute = type.kind == 's' ? &binary<std::int32_t, MultiplyHigh>
                                    : &binary<std::uint32_t, MultiplyHigh>;
  } else if (is_lower) {
    made.execute =
        is_sum ? of_bits(form, type,
                         [](auto t) -> Execute { return &ternary<decltype(t), MultiplyAdd>; })
               : binary_of_any<Multiply>(form, type, true);
  } else {
    form.refuse("an unknown product");
  }
  take_operands(form, made, type.bits, is_sum ? 4 : 3);
  return true;
}

bool make_binary(Form& form, Instruction& made) {
  std::string const& name = form.name();
  auto const make = [&](auto operation, bool ignores_sign) {
    Type const type = form.take_type();
    made.execute = binary_of_any<decltype(operation)>(form, type, ignores_sign);
    take_operands(form, made, type.bits, 3);
    return true;
  };
  if (name == "add" || name == "sub") {
    form.take("rn");
    return name == "add" ? make(Add{}, true) : make(Subtract{}, true);
  }
  if (name == "div") {
    form.take("rn");
    return make(Divide{}, false);
  }
  if (name == "min") return make(Minimum{}, false);
  if (name == "max") return make(Maximum{}, false);
  return false;
}

bool make_integer_only(Form& form, Instruction& made) {
  std::string const& name = form.name();
  bool const is_shift = name == "shl" || name == "shr";
  if (name != "rem" && !is_shift && name != "and" && name != "or" && name != "xor" &&
      name != "not") {
    return false;
  }
  Type const type = form.take_type();
  if (type.kind == 'p') {
    form.refuse("a predicate");  // make_comparison has it
  }
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
    if (name == "rem") return &binary<T, Remainder>;
    if (name == "and") return &binary<T, And>;
    if (name == "or") return &binary<T, Or>;
    return &binary<T, ExclusiveOr>;
  });
  take_operands(form, made, type.bits, 3);
  return true;
}

bool make_unary(Form& form, Instruction& made) {
  std::string const& name = form.name();
  if (name == "neg" || name == "abs") {
    Type const type = form.take_type();
    auto const make = [&](auto t) -> Execute {
      using T = decltype(t);
      return name == "neg" ? &unary<T, Negate> : &unary<T, Absolute>;
    };
    if (type.kind != 'f' && type.kind != 's') form.refuse("an unknown type");
    made.execute = type.kind == 'f' ? of_float(form, type, make) : of_integer(form, type, make);
    take_operands(form, made, type.bits, 2);
  } else if (name == "sqrt" || name == "rcp") {
    bool const is_approximate = form.take("approx");
    if (is_approximate) {
      form.require("ftz");
    } else {
      form.require("rn");
    }
    Type const type = form.take_type();
    if (is_approximate) {
      if (name != "rcp" || type.bits != 64) form.refuse("an unknown approximation");
      made.execute = &unary<double, RoughReciprocal>;
    } else {
      made.execute = of_float(form, type, [&](auto t) -> Execute {
        using T = decltype(t);
        return name == "sqrt" ? &unary<T, SquareRoot> : &unary<T, Reciprocal>;
      });
    }
    take_operands(form, made, type.bits, 2);
  } else if (name == "ex2") {
    form.require("approx");
    form.take("ftz");
    if (form.take_type() != Type{'f', 32}) form.refuse("an unknown type");
    made.execute = &unary<float, PowerOfTwo>;
    take_operands(form, made, 32, 2);
  } else if (name == "clz") {
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

bool make_of_several(Form& form, Instruction& made) {
  if (form.name() == "fma") {
    std::string const rounding = form.take_one_of({"rn", "rm"});
    Type const type = form.take_type();
    made.execute = of_float(form, type, [&](auto t) -> Execute {
      using T = decltype(t);
      return rounding == "rn" ? &ternary<T, FusedMultiplyAdd> : &fused_multiply_add_down<T>;
    });
    take_operands(form, made, type.bits, 4);
  } else if (form.name() == "bfi" || form.name() == "prmt") {
    form.require("b32");
    bool const inserts = form.name() == "bfi";
    made.execute = inserts ? &insert_bits : &permute_bytes;
    take_operands(form, made, 32, inserts ? 5 : 4);
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool make_arithmetic(Form& form, Instruction& made) {
  return make_with_carry(form, made) || make_product(form, made) || make_binary(form, made) ||
         make_unary(form, made) || make_of_several(form, made) || make_integer_only(form, made);
}

}  // namespace stagecraft::ptx
