#pragma once

#include <cstddef>

namespace stagecraft::emulation {

/// What a device takes in virtual time: to start anything, and to move bytes.
constexpr double start_seconds = 1e-6;
constexpr double seconds_per_byte = 1e-12;

inline double seconds_of(std::size_t bytes) {
  return start_seconds + static_cast<double>(bytes) * seconds_per_byte;
}

}  // namespace stagecraft::emulation
