#include "libexec/kernels/cpu/exact_sum.hpp"

#include <cmath>
#include <limits>

namespace stagecraft {
namespace {

constexpr int digit_bits = 32;
constexpr std::uint64_t digit_mask = 0xffffffffU;
constexpr int lowest_exponent = -1074;  ///< exponent of the smallest double's last bit
constexpr int mantissa_bits = 53;

}  // namespace

void ExactSum::add(double value) {
  if (!std::isfinite(value)) {
    ++words_[digits];
    return;
  }
  if (value == 0) return;
  int exponent = 0;
  double const fraction = std::frexp(std::abs(value), &exponent);
  auto const mantissa = static_cast<std::uint64_t>(std::ldexp(fraction, mantissa_bits));
  int const shift = exponent - mantissa_bits - lowest_exponent;
  // Below the smallest normal number the mantissa ends in zeros, which the shift removes.
  std::uint64_t const bits = shift >= 0 ? mantissa : mantissa >> -shift;
  int const within = shift >= 0 ? shift % digit_bits : 0;
  auto const first = static_cast<std::size_t>(shift >= 0 ? shift / digit_bits : 0);
  std::uint64_t const low = (bits & digit_mask) << within;
  std::uint64_t const high = ((bits >> digit_bits) << within) + (low >> digit_bits);
  std::int64_t const sign = value < 0 ? -1 : 1;
  words_[first] += sign * static_cast<std::int64_t>(low & digit_mask);
  words_[first + 1] += sign * static_cast<std::int64_t>(high & digit_mask);
  words_[first + 2] += sign * static_cast<std::int64_t>(high >> digit_bits);
}

double ExactSum::value() const {
  if (words_[digits] != 0) return std::numeric_limits<double>::quiet_NaN();
  // Propagates carries, so that all digits but the highest are in [0, 2^32).
  std::array<std::int64_t, digits> carried{};
  std::int64_t carry = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    std::int64_t const sum = words_[i] + carry;
    carry = sum >> digit_bits;
    carried[i] = i + 1 < digits ? sum & 0xffffffff : sum;
  }
  double result = 0;
  for (std::size_t i = digits; i-- > 0;) {
    if (carried[i] == 0) continue;
    result += std::ldexp(static_cast<double>(carried[i]),
                         static_cast<int>(i) * digit_bits + lowest_exponent);
  }
  return result;
}

}  // namespace stagecraft
