#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace stagecraft::ptx {

/// A floating-point format of 16 bits: what its bits mean (IEEE 754), and the bits nearest to a
/// value.
template <int fraction_bits>
struct NarrowFloat {
  static constexpr int exponent_bits = 15 - fraction_bits;
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr std::uint32_t infinity = ((1U << exponent_bits) - 1) << fraction_bits;

  static double value(std::uint32_t bits) {
    int const exponent = static_cast<int>((bits & 0x7FFFU) >> fraction_bits);
    auto const fraction = static_cast<double>(bits & ((1U << fraction_bits) - 1));
    double value = 0;
    if ((bits & infinity) == infinity) {
      value = fraction > 0 ? NAN : INFINITY;
    } else if (exponent == 0) {
      value = std::ldexp(fraction, 1 - bias - fraction_bits);
    } else {
      value = std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    }
    return (bits & 0x8000U) != 0 ? -value : value;
  }

  /// Ties to even; beyond the greatest, infinity; for NaN, the one that devices have.
  static std::uint16_t nearest(double value) {
    if (std::isnan(value)) return 0x7FFF;
    std::uint32_t const sign = std::signbit(value) ? 0x8000U : 0U;
    double const size = std::fabs(value);
    std::uint32_t bits = infinity;
    if (!std::isinf(size)) {
      // Of normal numbers 2^fraction_bits or more of the least step, which is that of subnormals.
      int const exponent = size == 0 ? 1 - bias : std::max(std::ilogb(size), 1 - bias);
      double const steps = std::nearbyint(std::ldexp(size, fraction_bits - exponent));
      // A carry out of the fraction comes to the exponent.
      double const all = steps + std::ldexp(exponent + bias - 1, fraction_bits);
      bits = all < infinity ? static_cast<std::uint32_t>(all) : infinity;
    }
    return static_cast<std::uint16_t>(sign | bits);
  }
};

using Float16Format = NarrowFloat<10>;
using BFloat16Format = NarrowFloat<7>;

}  // namespace stagecraft::ptx
