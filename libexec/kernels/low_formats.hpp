#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "libsim/program/tensor.hpp"

/// The numbers of 8 and 4 bits that quantised operands and their scales are made of.
///
/// Source: Micikevicius et al. 2022, arXiv:2209.05433, table 1 (E4M3, E5M2); OCP Microscaling
/// Formats 1.0, sections 5.3.3 (E2M1) and 5.4.1 (E8M0).
namespace stagecraft {

/// A sign, an exponent, a fraction; subnormals. Codes are in the low bits of a byte.
struct NumberFormat {
  int fraction_bits = 0;
  int least_exponent = 0;  ///< of normal numbers
  float largest = 0;       ///< the largest finite number
  std::uint32_t sign = 0;
  std::uint32_t nan = 0;       ///< a code of NaN; 0: there is none
  std::uint32_t infinity = 0;  ///< the code of infinity; 0: there is none
};

inline constexpr NumberFormat e4m3{3, -6, 448, 0x80, 0x7F, 0};
inline constexpr NumberFormat e5m2{2, -14, 57344, 0x80, 0x7E, 0x7C};
inline constexpr NumberFormat e2m1{1, 0, 6, 0x8, 0, 0};

/// The format of an element type. Pre: is_quantised(type).
constexpr NumberFormat const& format_of(ElementType type) {
  return type == ElementType::f8_e4m3 ? e4m3 : type == ElementType::f8_e5m2 ? e5m2 : e2m1;
}

/// The code of the nearest number, ties to even. What is beyond the largest finite number, infinity
/// included, becomes that. A NaN stays one, or becomes the largest number if there is none.
template <NumberFormat const& format>
inline std::uint8_t encode(float x) {
  auto const bits = std::bit_cast<std::uint32_t>(x);
  std::uint32_t const sign = bits >> 31 != 0 ? format.sign : 0;
  std::uint32_t const magnitude = bits & 0x7FFFFFFFU;
  bool const is_nan = magnitude > 0x7F800000U;
  constexpr auto most = std::bit_cast<std::uint32_t>(format.largest);
  std::uint32_t const capped = magnitude < most ? magnitude : most;
  constexpr std::uint32_t least = 127 + format.least_exponent;
  std::uint32_t const exponent = (capped >> 23) > least ? capped >> 23 : least;
  // The last place of a float 23 - f binary places above is that of the format, so that the
  // addition does the rounding.
  std::uint32_t const shifted = (exponent + 23 - format.fraction_bits) << 23;
  std::uint32_t const units =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(capped) + std::bit_cast<float>(shifted)) -
      shifted;
  std::uint32_t code = ((exponent - least) << format.fraction_bits) + units;
  if (is_nan && format.nan != 0) code = format.nan;
  return static_cast<std::uint8_t>(code | sign);
}

/// The number of a code.
constexpr float decode(NumberFormat const& format, std::uint32_t code) {
  std::uint32_t const magnitude = code & (format.sign - 1);
  float value = 0;
  if (format.infinity != 0 && magnitude == format.infinity) {
    value = std::numeric_limits<float>::infinity();
  } else if (magnitude >= format.nan && format.nan != 0) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else if (format.infinity != 0 && magnitude > format.infinity) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else {
    std::uint32_t const one = 1U << format.fraction_bits;
    std::uint32_t const field = magnitude >> format.fraction_bits;
    std::uint32_t const units = field == 0 ? magnitude : magnitude % one + one;
    std::uint32_t const exponent =
        static_cast<std::uint32_t>(127 + format.least_exponent - format.fraction_bits) +
        (field == 0 ? 0 : field - 1);
    value = static_cast<float>(units) * std::bit_cast<float>(exponent << 23);
  }
  return (code & format.sign) != 0 ? -value : value;
}

/// The numbers of all codes of a byte. Of E2M1, the sixteen codes repeat.
constexpr std::array<float, 256> decoded(NumberFormat const& format) {
  std::array<float, 256> numbers{};
  for (std::uint32_t code = 0; code < 256; ++code) {
    numbers[code] = decode(format, code & (2 * format.sign - 1));
  }
  return numbers;
}
template <NumberFormat const& format>
inline constexpr std::array<float, 256> numbers_of = decoded(format);

/// The numbers of an element type's codes. Pre: is_quantised(type).
inline float const* numbers_of_type(ElementType type) {
  return (type == ElementType::f8_e4m3   ? numbers_of<e4m3>
          : type == ElementType::f8_e5m2 ? numbers_of<e5m2>
                                         : numbers_of<e2m1>)
      .data();
}

/// E8M0: the code c is 2^(c - 127), and 255 is NaN. The least power of two that is not below x >=
/// 0; 2^127 if there is none.
/// Source: Transformer Engine, float_to_e8m0.
inline std::uint8_t encode_e8m0_up(float x) {
  auto const bits = std::bit_cast<std::uint32_t>(x);
  if (bits > 0x7F800000U) return 255;
  if (bits >= 0x7F000000U) return 254;
  std::uint32_t const exponent = bits >> 23;
  std::uint32_t const fraction = bits & 0x7FFFFFU;
  // 2^-127, the code 0, is subnormal in a float.
  bool const is_above = exponent > 0 ? fraction > 0 : fraction > 0x400000U;
  return static_cast<std::uint8_t>(exponent + (is_above ? 1 : 0));
}

constexpr float decode_e8m0(std::uint32_t code) {
  if (code == 255) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(code == 0 ? 0x400000U : code << 23);
}

}  // namespace stagecraft
