#pragma once

#include <cmath>
#include <cstdint>

#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/kernel_call.hpp"

namespace stagecraft {

/// Four words: the counter of Philox4x32, or the random numbers that it becomes.
struct PhiloxBlock {
  std::uint32_t word[4];
};

inline constexpr std::uint32_t philox_multiplier_0 = 0xD2511F53U;
inline constexpr std::uint32_t philox_multiplier_1 = 0xCD9E8D57U;
inline constexpr std::uint32_t philox_weyl_0 = 0x9E3779B9U;
inline constexpr std::uint32_t philox_weyl_1 = 0xBB67AE85U;

/// Philox4x32-10, a bijection of the counter for each key.
/// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"; Random123.
STAGECRAFT_HOST_DEVICE inline PhiloxBlock philox(PhiloxBlock counter,
                                                 std::uint32_t key_0,
                                                 std::uint32_t key_1) {
  PhiloxBlock x = counter;
  for (std::uint32_t round = 0; round < 10; ++round) {
    std::uint64_t const a = std::uint64_t{philox_multiplier_0} * x.word[0];
    std::uint64_t const b = std::uint64_t{philox_multiplier_1} * x.word[2];
    x = {{static_cast<std::uint32_t>(b >> 32) ^ x.word[1] ^ (key_0 + round * philox_weyl_0),
          static_cast<std::uint32_t>(b),
          static_cast<std::uint32_t>(a >> 32) ^ x.word[3] ^ (key_1 + round * philox_weyl_1),
          static_cast<std::uint32_t>(a)}};
  }
  return x;
}

/// The last word of every counter of a draw.
STAGECRAFT_HOST_DEVICE inline std::uint32_t site_word(RandomDraw const& draw) {
  return draw.layer << 8 | static_cast<std::uint32_t>(draw.site);
}

/// The four words of a draw for the global elements 4 block to 4 block + 3.
STAGECRAFT_HOST_DEVICE inline PhiloxBlock draw_block(RandomDraw const& draw, std::uint64_t block) {
  return philox({{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                  draw.microbatch, site_word(draw)}},
                draw.seed, draw.step);
}

/// An element is kept if its word is at least this: floor(rate * 2^32). Pre: 0 <= rate < 1, so that
/// it fits into 32 bits.
STAGECRAFT_HOST_DEVICE inline std::uint32_t keep_threshold(double rate) {
  return static_cast<std::uint32_t>(::floor(rate * 4294967296.0));
}

}  // namespace stagecraft
