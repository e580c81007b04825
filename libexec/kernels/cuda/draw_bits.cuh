#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "libexec/kernels/dropout.hpp"

namespace stagecraft {

/// Whether each of `width` elements from global index `first` on is kept: bit i for element i.
/// One block of Philox gives four elements; one more block is drawn if `first` is inside a block.
template <int width>
__device__ inline std::uint32_t draw_bits(RandomDraw const& draw,
                                          std::uint32_t threshold,
                                          std::uint64_t first) {
  constexpr int most = (width + 6) / 4;
  auto const shift = static_cast<int>(first & 3);
  int const blocks = (shift + width + 3) / 4;
  std::uint32_t bits = 0;
#pragma unroll
  for (int k = 0; k < most; ++k) {
    if (k >= blocks) break;
    PhiloxBlock const block = draw_block(draw, (first >> 2) + static_cast<std::uint64_t>(k));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      bits |= (block.word[i] >= threshold ? 1U : 0U) << (4 * k + i);
    }
  }
  return bits >> shift;
}

}  // namespace stagecraft
