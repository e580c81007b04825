#pragma once

#include <array>
#include <cstdint>

namespace stagecraft {

/// A sum of doubles without rounding. It does not depend on order and grouping, so that all layouts
/// of ranks get the same bits.
///
/// A number is added to the 32-bit digits of one long fixed-point number. Each digit is stored in
/// 64 bits, so that billions of additions need no carry.
/// Source: Kulisch, "Computer arithmetic and validity", 2008.
class ExactSum {
 public:
  static constexpr int digits = 68;  ///< of 32 bits: the whole range of a double

  /// Infinite numbers and NaN make the value NaN.
  void add(double value);
  double value() const;

  /// The digits, which ranks sum one by one before they call value().
  std::array<std::int64_t, digits + 1>& words() { return words_; }

 private:
  std::array<std::int64_t, digits + 1> words_{};  ///< the last one counts infinities and NaNs
};

}  // namespace stagecraft
