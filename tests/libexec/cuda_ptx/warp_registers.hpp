#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "tests/libexec/cuda_ptx/program.hpp"

namespace stagecraft::ptx {

class BlockMemory;

inline constexpr int warp_lanes = 32;

/// What a device would stop for, or what has no defined result.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What instructions work on.
struct WarpRegisters {
  std::byte* bytes;
  BlockMemory& memory;
  int warp;                 ///< in its block
  std::uint32_t carry = 0;  ///< CC.CF, a bit for each lane

  template <typename T>
  T* lanes(Slot slot) {
    return reinterpret_cast<T*>(bytes + slot);
  }
  std::uint32_t& predicate(Slot slot) { return *lanes<std::uint32_t>(slot); }
};

template <typename Body>
inline void for_lanes(std::uint32_t lanes, Body const& body) {
  if (lanes == 0xFFFFFFFFU) {
    for (int lane = 0; lane < warp_lanes; ++lane) body(lane);
  } else {
    for (; lanes != 0; lanes &= lanes - 1) body(std::countr_zero(lanes));
  }
}

}  // namespace stagecraft::ptx
