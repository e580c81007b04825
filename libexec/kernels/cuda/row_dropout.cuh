#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "libexec/kernels/cuda/draw_bits.cuh"
#include "libexec/kernels/cuda/pack.cuh"
#include "libexec/kernels/dropout.hpp"

namespace stagecraft::cuda_ops {

/// Mask bytes as bits, bit i for element i, and back.
template <int width>
__device__ inline std::uint32_t bits_of_mask(Pack<std::uint8_t, width> const& mask) {
  std::uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < width; ++i) bits |= (mask[i] != 0 ? 1U : 0U) << i;
  return bits;
}
template <int width>
__device__ inline Pack<std::uint8_t, width> mask_of_bits(std::uint32_t bits) {
  Pack<std::uint8_t, width> mask;
#pragma unroll
  for (int i = 0; i < width; ++i) mask[i] = static_cast<std::uint8_t>(bits >> i & 1U);
  return mask;
}

/// A dropout on a device, one access of a row at a time.
template <typename S>
struct RowDropout {
  DropoutRows rows;
  RandomDraw draw;
  DropoutRate<Compute<S>> rate;

  /// Which of `width` columns of a row from `column` on are kept, drawn from the counter; 0 for
  /// columns that are not drawn.
  template <int width>
  __device__ std::uint32_t drawn(std::int64_t row, std::int64_t column) const {
    if (column >= rows.alive(row)) return 0;
    std::uint64_t const first = rows.first_element(row) + static_cast<std::uint64_t>(column);
    return alive<width>(row, column, draw_bits<width>(draw, rate.threshold, first));
  }
  /// The same, read from a mask.
  template <int width>
  __device__ std::uint32_t given(std::int64_t row,
                                 std::int64_t column,
                                 Pack<std::uint8_t, width> const& mask) const {
    return alive<width>(row, column, bits_of_mask(mask));
  }
  /// x / (1 - rate) if it is kept, otherwise 0.
  template <int width>
  __device__ Pack<S, width> apply(Pack<S, width> const& x, std::uint32_t bits) const {
    Pack<S, width> y;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      Compute<S> const value = widen(x[i]) * rate.scale;
      y[i] = narrow<S>((bits >> i & 1U) != 0 ? value : Compute<S>{0});
    }
    return y;
  }

 private:
  template <int width>
  __device__ std::uint32_t alive(std::int64_t row, std::int64_t column, std::uint32_t bits) const {
    std::int64_t const columns = rows.alive(row) - column;
    if (columns >= width) return bits;
    return bits & (columns > 0 ? (1U << columns) - 1U : 0U);
  }
};

}  // namespace stagecraft::cuda_ops
