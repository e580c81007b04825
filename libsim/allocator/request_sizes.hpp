#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "libsim/allocator/allocator_settings.hpp"

namespace stagecraft {

/// How PyTorch turns requests into blocks, and blocks into segments.
/// Source: PyTorch, c10/cuda/CUDACachingAllocator.cpp (round_size, get_allocation_size).
namespace request_sizes {

inline constexpr std::int64_t smallest_block = 512;
inline constexpr std::int64_t largest_small = std::int64_t{1}
                                              << 20;  ///< the largest request of the small pool
inline constexpr std::int64_t small_segment = std::int64_t{2} << 20;
inline constexpr std::int64_t smallest_own_segment = std::int64_t{10} << 20;
inline constexpr std::int64_t segment_multiple = std::int64_t{2} << 20;

constexpr std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// The block that a request of `bytes` gets. Pre: 0 < bytes <= largest_request
inline std::int64_t block_size(std::int64_t bytes, AllocatorSettings const& settings) {
  if (bytes < smallest_block) return smallest_block;
  auto const size = static_cast<std::uint64_t>(bytes);
  auto const power = static_cast<int>(std::bit_width(size)) - 1;
  constexpr int first_power = 20;
  auto const interval =
      static_cast<std::size_t>(std::clamp(power - first_power, 0, rounding_intervals - 1));
  std::int64_t const divisions = settings.power2_divisions[interval];
  if (divisions > 1 && bytes > smallest_block * divisions) {
    return rounded_up(bytes, (std::int64_t{1} << power) / divisions);
  }
  return rounded_up(bytes, smallest_block);
}

constexpr bool is_small(std::int64_t block) { return block <= largest_small; }

/// The segment that is taken from the device for a block.
inline std::int64_t segment_size(std::int64_t block, AllocatorSettings const& settings) {
  if (is_small(block)) return small_segment;
  if (block < smallest_own_segment) return settings.large_segment_size;
  return rounded_up(block, segment_multiple);
}

}  // namespace request_sizes
}  // namespace stagecraft
