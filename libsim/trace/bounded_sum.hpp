#pragma once

#include <cstdint>
#include <limits>

namespace stagecraft {

/// a + b, or the nearest representable number if that overflows: numbers from a file can have any
/// sum.
inline std::int64_t bounded_sum(std::int64_t a, std::int64_t b) {
  using Limits = std::numeric_limits<std::int64_t>;
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? Limits::min() : Limits::max();
}

}  // namespace stagecraft
