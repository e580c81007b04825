#pragma once

#include <array>
#include <cstdint>

namespace stagecraft {

/// A sum of doubles without any rounding: the same whatever the order and the grouping, so that
/// ranks may sum their shares in any layout and all get the same bits.
///
/// A number is added to 32-bit digits of one long fixed-point number, each kept in 64 bits so that
/// billions of additions carry nothing. Source: Kulisch, "Computer arithmetic and validity", 2008.
class ExactSum {
 public:
  static constexpr int digits = 68;  ///< 32 bits each: all of a double's range

  /// Infinite numbers and NaN make the value NaN.
  void add(double value);
  double value() const;

  /// What ranks add up: digit by digit, and then value().
  std::array<std::int64_t, digits + 1>& words() { return words_; }

 private:
  std::array<std::int64_t, digits + 1> words_{};  ///< the last counts what is not finite
};

}  // namespace stagecraft
