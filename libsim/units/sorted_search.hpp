#pragma once

#include <cstdint>

namespace stagecraft {

/// The index of the first of `count` numbers in ascending order that is above `value`; `count` if
/// none is. As std::upper_bound() on the host; of that one nvcc 13.0 with the library of GCC 12
/// makes wrong device code (std::advance() does nothing there).
constexpr std::int64_t first_above(std::int64_t const* sorted,
                                   std::int64_t count,
                                   std::int64_t value) {
  std::int64_t begin = 0;
  std::int64_t end = count;
  while (begin < end) {
    std::int64_t const middle = begin + (end - begin) / 2;
    if (sorted[middle] > value) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return begin;
}

}  // namespace stagecraft
