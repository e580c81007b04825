#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "libexec/kernels/cuda/launch.cuh"
#include "libexec/kernels/cuda/pack.cuh"
#include "libexec/kernels/operands/operand_checks.hpp"

/// Kernels in which a group of threads works on a row: threadIdx.x is the position in the row,
/// threadIdx.y the row of the block. A block has several rows if one warp works on each, which
/// needs no barrier; otherwise it has one row.
namespace stagecraft {

inline constexpr int warp_threads = 32;
inline constexpr int most_row_threads = 512;

/// Combines one value per thread of a row with `combine`, in an order that depends only on the
/// number of threads. Every thread gets the result.
template <typename C, typename Combine>
__device__ C combine_row(C value, Combine const& combine) {
#pragma unroll
  for (int offset = warp_threads / 2; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffU, value, offset));
  }
  if (blockDim.x == warp_threads) return value;
  __shared__ C of_warp[most_row_threads / warp_threads];
  __syncthreads();  // the values of the previous reduction have been read
  if (threadIdx.x % warp_threads == 0) of_warp[threadIdx.x / warp_threads] = value;
  __syncthreads();
  C all = of_warp[0];
  for (unsigned warp = 1; warp < blockDim.x / warp_threads; ++warp) {
    all = combine(all, of_warp[warp]);
  }
  return all;
}

template <typename C>
__device__ C row_sum(C value) {
  return combine_row(value, [](C a, C b) { return a + b; });
}

/// Ignores NaNs.
__device__ inline float larger(float a, float b) { return ::fmaxf(a, b); }
__device__ inline double larger(double a, double b) { return ::fmax(a, b); }

template <typename C>
__device__ C row_maximum(C value) {
  return combine_row(value, [](C a, C b) { return larger(a, b); });
}

/// The row of this thread. Whole warps have nothing to do if it is not below `rows`.
__device__ inline std::int64_t this_row() {
  return std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
}

/// Calls body(k, column) for each access k of this thread, which has `width` columns from `column`
/// on, up to column n. `accesses` accesses reach the row's end.
template <int width, int accesses, typename Body>
__device__ void for_accesses(std::int64_t n, Body const& body) {
#pragma unroll
  for (int k = 0; k < accesses; ++k) {
    auto const column = static_cast<int>((k * blockDim.x + threadIdx.x) * width);
    if (column < n) body(k, column);
  }
}

/// The launch configuration of kernels that hold rows in registers.
struct RowLaunch {
  dim3 blocks;
  dim3 threads;
};

inline RowLaunch row_launch(std::int64_t rows, std::int64_t row_threads) {
  std::int64_t const across = (row_threads + warp_threads - 1) / warp_threads * warp_threads;
  std::int64_t const down = across == warp_threads ? 4 : 1;
  return {dim3{static_cast<unsigned>((rows + down - 1) / down)},
          dim3{static_cast<unsigned>(across), static_cast<unsigned>(down)}};
}

/// Calls body(width, held) with two integral constants: the columns of one access, and the elements
/// that each thread keeps in registers, so that a row is read once. `fits` is as for element-wise
/// kernels.
/// \throws std::logic_error  if rows have more than 32768 columns.
template <typename S, typename Body>
void with_held_row(OpKind kind, std::int64_t columns, bool fits, Body const& body) {
  if (columns > 64 * most_row_threads)
    refuse(kind, "rows of more than 32768 columns have no kernel");
  auto const with_width = [&](auto width) {
    if (columns <= 32 * most_row_threads) {
      body(width, std::integral_constant<int, 32>{});
    } else {
      body(width, std::integral_constant<int, 64>{});
    }
  };
  if (fits && columns % pack_width<S> == 0) {
    with_width(std::integral_constant<int, pack_width<S>>{});
  } else {
    with_width(std::integral_constant<int, 1>{});
  }
}

}  // namespace stagecraft
