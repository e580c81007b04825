#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/kernel_call.hpp"
#include "libexec/kernels/operands/dropout_operands.hpp"

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

// Dropout masks, drawn for runs of consecutive global elements.

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

/// A dropout rate and the constants derived from it.
template <typename C>
struct DropoutRate {
  std::uint32_t threshold = 0;
  C scale{1};  ///< factor on kept elements

  explicit DropoutRate(double rate)
      : threshold{keep_threshold(rate)}, scale{static_cast<C>(1.0 / (1.0 - rate))} {}
};

/// A dropout on a CPU, row by row.
template <typename S>
struct RowDropout {
  DropoutRows rows;
  RandomDraw draw;
  DropoutRate<Compute<S>> rate;
  std::uint8_t const* given;  ///< the mask of all rows; null: it is drawn
  std::uint8_t* stored;       ///< where to store a drawn mask; null: nowhere

  /// y = mask x / (1 - rate) over row `row`, which starts at x and at y (equal for a dropout in
  /// place). y and the stored mask are zero after the row's last column that is drawn.
  void operator()(std::int64_t row, S const* x, S* y) const {
    std::uint8_t drawn[draw_room];
    std::int64_t const alive = rows.alive(row);
    std::uint64_t const first_element = rows.first_element(row);
    std::int64_t const row_begin = row * rows.columns;
    for (std::int64_t first = 0; first < alive; first += draw_chunk) {
      std::int64_t const n = std::min(draw_chunk, alive - first);
      std::uint8_t const* const kept =
          given != nullptr ? given + row_begin + first
                           : draw_kept(draw, rate.threshold,
                                       first_element + static_cast<std::uint64_t>(first), n, drawn);
      for (std::int64_t i = 0; i < n; ++i) {
        Compute<S> const value = widen(x[first + i]) * rate.scale;
        y[first + i] = narrow<S>(kept[i] != 0 ? value : Compute<S>{0});
      }
      if (stored != nullptr) std::copy_n(kept, n, stored + row_begin + first);
    }
    std::fill_n(y + alive, rows.columns - alive, S{});
    if (stored != nullptr) {
      std::fill_n(stored + row_begin + alive, rows.columns - alive, std::uint8_t{0});
    }
  }
};

}  // namespace stagecraft
