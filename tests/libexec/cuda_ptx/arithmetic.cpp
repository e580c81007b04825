// Arithmetic of integers and of floating point: PTX ISA 9.0, 9.7.1 and 9.7.3. Floating point rounds
// as the host does, which is IEEE 754 to the nearest. What a device approximates is computed
// exactly here and rounded.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tests/libexec/cuda_ptx/instruction_set.hpp"
#include "tests/libexec/cuda_ptx/typed_execution.hpp"

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
/// Of the first operand, on the magnitude of the second.
struct CopySign {
  template <typename T>
  T operator()(T sign, T magnitude) const {
    return std::copysign(magnitude, sign);
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

/// fma.rm: towards minus infinity.
template <typename T>
void fused_multiply_add_down(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  int const before = std::fegetround();
  std::fesetround(FE_DOWNWARD);
  ternary<T, FusedMultiplyAdd>(warp, one, lanes);
  std::fesetround(before);
}

/// add.rz: rounds towards zero.
template <typename T>
void add_towards_zero(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  int const before = std::fegetround();
  std::fesetround(FE_TOWARDZERO);
  binary<T, Add>(warp, one, lanes);
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

template <typename Operation>
Execute binary_of_any(Form const& form, Type type, bool ignores_sign) {
  auto const make = [](auto t) -> Execute { return &binary<decltype(t), Operation>; };
  if (type.kind == 'f') return of_float(form, type, make);
  return ignores_sign ? of_bits(form, type, make) : of_integer(form, type, make);
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
  if (name == "add" && form.take("rz")) {
    Type const type = form.take_type();
    made.execute =
        of_float(form, type, [](auto t) -> Execute { return &add_towards_zero<decltype(t)>; });
    take_operands(form, made, type.bits, 3);
    return true;
  }
  if (name == "add" || name == "sub") {
    form.take("rn");
    return name == "add" ? make(Add{}, true) : make(Subtract{}, true);
  }
  if (name == "div") {
    form.take("rn");
    return make(Divide{}, false);
  }
  if (name == "rem") {
    Type const type = form.take_type();
    made.execute =
        of_integer(form, type, [](auto t) -> Execute { return &binary<decltype(t), Remainder>; });
    take_operands(form, made, type.bits, 3);
    return true;
  }
  if (name == "copysign") {
    Type const type = form.take_type();
    if (type.kind != 'f') form.refuse("an unknown type");
    made.execute =
        of_float(form, type, [](auto t) -> Execute { return &binary<decltype(t), CopySign>; });
    take_operands(form, made, type.bits, 3);
    return true;
  }
  if (name == "min") return make(Minimum{}, false);
  if (name == "max") return make(Maximum{}, false);
  return false;
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
      if (name != "rcp") form.refuse("an unknown approximation");
      made.execute = type.bits == 64 ? &unary<double, RoughReciprocal> : &unary<float, Reciprocal>;
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
  } else {
    return false;
  }
  return true;
}

bool make_fused(Form& form, Instruction& made) {
  if (form.name() != "fma") return false;
  std::string const rounding = form.take_one_of({"rn", "rm"});
  Type const type = form.take_type();
  made.execute = of_float(form, type, [&](auto t) -> Execute {
    using T = decltype(t);
    return rounding == "rn" ? &ternary<T, FusedMultiplyAdd> : &fused_multiply_add_down<T>;
  });
  take_operands(form, made, type.bits, 4);
  return true;
}

}  // namespace

bool make_arithmetic(Form& form, Instruction& made) {
  return make_product(form, made) || make_binary(form, made) || make_unary(form, made) ||
         make_fused(form, made);
}

}  // namespace stagecraft::ptx
