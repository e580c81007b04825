#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "libexec/kernels/philox.hpp"

/// Dropout masks, drawn for runs of consecutive global elements.
namespace stagecraft {

/// The largest number of elements of a run.
inline constexpr std::int64_t draw_chunk = 256;
/// The most that a run writes: whole groups of eight blocks of four.
inline constexpr std::int64_t draw_room = draw_chunk + 32;

/// Draws whether each of `count` elements from global index `first` on is kept: 1 or 0. Returns
/// their address in `kept`, which need not be its start, because runs need not start at a block of
/// four. Pre: 0 < count <= draw_chunk; `kept` has room for draw_room elements.
inline std::uint8_t const* draw_kept(RandomDraw const& draw,
                                     std::uint32_t threshold,
                                     std::uint64_t first,
                                     std::int64_t count,
                                     std::uint8_t* kept) {
  // Several blocks at a time, as arrays, so that each round of Philox becomes vector code.
  constexpr std::uint32_t width = 64;
  std::uint64_t const first_block = first >> 2;
  std::uint64_t const last_block = (first + static_cast<std::uint64_t>(count) - 1) >> 2;
  auto const blocks = static_cast<std::uint32_t>(last_block - first_block + 1);
  for (std::uint32_t begin = 0; begin < blocks; begin += width) {
    // A multiple of eight, which is a whole vector, so that no remainder loop is needed.
    std::uint32_t const n = (std::min(width, blocks - begin) + 7) / 8 * 8;
    std::uint32_t x0[width];
    std::uint32_t x1[width];
    std::uint32_t x2[width];
    std::uint32_t x3[width];
    for (std::uint32_t j = 0; j < n; ++j) {
      std::uint64_t const block = first_block + begin + j;
      x0[j] = static_cast<std::uint32_t>(block);
      x1[j] = static_cast<std::uint32_t>(block >> 32);
      x2[j] = draw.microbatch;
      x3[j] = site_word(draw);
    }
    for (std::uint32_t round = 0; round < 10; ++round) {
      std::uint32_t const key_0 = draw.seed + round * philox_weyl_0;
      std::uint32_t const key_1 = draw.step + round * philox_weyl_1;
      for (std::uint32_t j = 0; j < n; ++j) {
        std::uint64_t const a = std::uint64_t{philox_multiplier_0} * x0[j];
        std::uint64_t const b = std::uint64_t{philox_multiplier_1} * x2[j];
        x0[j] = static_cast<std::uint32_t>(b >> 32) ^ x1[j] ^ key_0;
        x1[j] = static_cast<std::uint32_t>(b);
        x2[j] = static_cast<std::uint32_t>(a >> 32) ^ x3[j] ^ key_1;
        x3[j] = static_cast<std::uint32_t>(a);
      }
    }
    for (std::uint32_t j = 0; j < n; ++j) {
      std::uint8_t* const four = kept + std::size_t{4} * (begin + j);
      four[0] = x0[j] >= threshold;
      four[1] = x1[j] >= threshold;
      four[2] = x2[j] >= threshold;
      four[3] = x3[j] >= threshold;
    }
  }
  return kept + (first & 3);
}

}  // namespace stagecraft
