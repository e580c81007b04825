#include "libexec/kernels/element.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "libexec/kernels/formulas.hpp"

namespace stagecraft::element_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// A half's value from its fields: IEEE 754-2019, section 3.4.
double half_by_definition(std::uint32_t bits) {
  int const exponent = static_cast<int>(bits >> 10 & 31U);
  double const fraction = (bits & 1023U) / 1024.0;
  double const sign = (bits & 0x8000U) != 0 ? -1 : 1;
  if (exponent == 31) {
    return fraction == 0 ? sign * infinity : std::numeric_limits<double>::quiet_NaN();
  }
  return sign *
         (exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15));
}

TEST_CASE("every half widens to the value of its fields, and narrows back to itself", "[kernels]") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    Float16 const half{static_cast<std::uint16_t>(bits)};
    double const value = half_by_definition(bits);
    float const widened = widen(half);
    if (std::isnan(value)) {
      REQUIRE(std::isnan(widened));
      REQUIRE(std::isnan(widen(to_float16(widened))));
      continue;
    }
    REQUIRE(static_cast<double>(widened) == value);
    REQUIRE(std::signbit(widened) == std::signbit(value));
    REQUIRE(to_float16(widened).bits == bits);
  }
}

TEST_CASE("every bfloat16 is the upper half of its float, and narrows back to itself",
          "[kernels]") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    BFloat16 const value{static_cast<std::uint16_t>(bits)};
    float const widened = widen(value);
    REQUIRE(std::bit_cast<std::uint32_t>(widened) == bits << 16);
    BFloat16 const back = to_bfloat16(widened);
    if (std::isnan(widened)) {
      REQUIRE(std::isnan(widen(back)));
    } else {
      REQUIRE(back.bits == bits);
    }
  }
}

/// Of all finite values of a 16-bit type (and infinity as the next step after the largest), that
/// next to x; ties to the even pattern.
template <typename Widen>
std::uint32_t nearest_magnitude(double x,
                                std::uint32_t infinity_bits,
                                double beyond,
                                Widen value_of) {
  std::uint32_t best = 0;
  double distance = x;
  for (std::uint32_t bits = 1; bits <= infinity_bits; ++bits) {
    double const value = bits == infinity_bits ? beyond : value_of(bits);
    double const here = std::abs(value - x);
    if (here < distance || (here == distance && bits % 2 == 0)) {
      best = bits;
      distance = here;
    }
  }
  return best;
}

TEST_CASE("floats between two 16-bit values go to the nearest, ties to the even one", "[kernels]") {
  auto const half = [](std::uint32_t bits) { return half_by_definition(bits); };
  auto const brain = [](std::uint32_t bits) {
    return static_cast<double>(std::bit_cast<float>(bits << 16));
  };
  std::mt19937 engine{1};
  for (int i = 0; i < 300; ++i) {
    // Near a random value of the type: exactly between it and the next, and a float above and
    // below.
    std::uint32_t const bits =
        i < 40 ? static_cast<std::uint32_t>(i) : static_cast<std::uint32_t>(engine() % 0x7C00U);
    double const next = bits + 1 == 0x7C00U ? 65536 : half(bits + 1);
    auto const middle = static_cast<float>((half(bits) + next) / 2);
    for (float const x : {middle, std::nextafter(middle, infinity), std::nextafter(middle, 0.F)}) {
      CAPTURE(x);
      REQUIRE(to_float16(x).bits == nearest_magnitude(x, 0x7C00U, 65536, half));
      REQUIRE(to_float16(-x).bits == (nearest_magnitude(x, 0x7C00U, 65536, half) | 0x8000U));
    }
    std::uint32_t const wide =
        i < 40 ? static_cast<std::uint32_t>(i) : static_cast<std::uint32_t>(engine() % 0x7F80U);
    auto const tie = std::bit_cast<float>(wide << 16 | 0x8000U);
    for (float const x : {tie, std::nextafter(tie, infinity), std::nextafter(tie, 0.F)}) {
      CAPTURE(x);
      REQUIRE(to_bfloat16(x).bits == nearest_magnitude(x, 0x7F80U, std::ldexp(1.0, 128), brain));
    }
  }
}

TEST_CASE("16-bit types overflow to infinity, underflow to signed zero and keep NaN", "[kernels]") {
  CHECK(to_float16(65519.996F).bits == 0x7BFF);
  CHECK(to_float16(65520.F).bits == 0x7C00);
  CHECK(to_float16(-1e30F).bits == 0xFC00);
  CHECK(to_float16(infinity).bits == 0x7C00);
  CHECK(to_float16(0x1p-25F).bits == 0);  // a tie between 0 and the smallest subnormal
  CHECK(to_float16(std::nextafter(0x1p-25F, 1.F)).bits == 1);
  CHECK(to_float16(-0x1p-30F).bits == 0x8000);
  CHECK(to_bfloat16(std::numeric_limits<float>::max()).bits == 0x7F80);
  CHECK(to_bfloat16(-infinity).bits == 0xFF80);
  // NaNs whose payload lies in the bits that are cut off.
  for (std::uint32_t const bits : {0x7F800001U, 0xFF800001U, 0x7FFFFFFFU, 0xFFFFFFFFU}) {
    auto const nan = std::bit_cast<float>(bits);
    CHECK(std::isnan(widen(to_bfloat16(nan))));
    CHECK(std::isnan(widen(to_float16(nan))));
  }
}

TEST_CASE("the float exponential is within 2 units in the last place", "[kernels]") {
  double worst = 0;
  for (int i = 0; i <= 400000; ++i) {
    float const x = -87.F + static_cast<float>(i) * (175.5F / 400000);
    double const exact = std::exp(static_cast<double>(x));
    auto const rounded = static_cast<float>(exact);
    double const unit = std::nextafter(rounded, infinity) - static_cast<double>(rounded);
    worst = std::max(worst, std::abs(exponential(x) - exact) / unit);
  }
  CAPTURE(worst);
  CHECK(worst < 2);
}

TEST_CASE("the float exponential ends in 0 and infinity, is 1 at 0 and keeps NaN", "[kernels]") {
  CHECK(exponential(0.F) == 1);
  CHECK(exponential(-infinity) == 0);
  CHECK(exponential(-104.5F) == 0);
  CHECK(exponential(-100.F) == Approx(std::exp(-100.0)).epsilon(0.02));  // subnormal
  CHECK(exponential(88.7F) == Approx(std::exp(88.699997)));
  CHECK(exponential(89.F) == infinity);
  CHECK(exponential(infinity) == infinity);
  CHECK(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("GELU and SiLU are their textbook formulas, and their derivatives those of them",
          "[kernels]") {
  for (double x = -6; x <= 6; x += 0.37) {
    CAPTURE(x);
    double const u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
    CHECK(gelu(x) == Approx(x / 2 * (1 + std::tanh(u))).margin(1e-14));
    CHECK(silu(x) == Approx(x / (1 + std::exp(-x))).margin(1e-14));
    double const step = 1e-5;
    CHECK(gelu_derivative(x) ==
          Approx((gelu(x + step) - gelu(x - step)) / (2 * step)).margin(1e-9));
    CHECK(silu_derivative(x) ==
          Approx((silu(x + step) - silu(x - step)) / (2 * step)).margin(1e-9));
    CHECK(gelu(static_cast<float>(x)) == Approx(gelu(x)).margin(1e-6));
    CHECK(gelu_derivative(static_cast<float>(x)) == Approx(gelu_derivative(x)).margin(2e-6));
  }
}

}  // namespace
}  // namespace stagecraft::element_test
