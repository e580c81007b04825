#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "libexec/kernels/cuda/launch.cuh"
#include "libexec/kernels/cuda/row_block.cuh"

/// Sums of whole numbers in the order of threads, by which rows get their places.
namespace stagecraft {

inline constexpr int scan_threads = 256;

/// The sum of the values of the threads of a warp up to this one.
template <typename T>
__device__ T warp_prefix(T value) {
  unsigned const lane = threadIdx.x % warp_threads;
#pragma unroll
  for (unsigned offset = 1; offset < warp_threads; offset *= 2) {
    T const before = __shfl_up_sync(0xffffffffU, value, offset);
    if (lane >= offset) value += before;
  }
  return value;
}

/// A sum over the threads of a block.
template <typename T>
struct BlockSum {
  T before;  ///< of the threads before this one
  T all;
};

/// All threads of a block of at most scan_threads threads, all in x, call it.
template <typename T>
__device__ BlockSum<T> block_prefix(T value) {
  __shared__ T of_warp[scan_threads / warp_threads];
  T const up_to = warp_prefix(value);
  unsigned const own = threadIdx.x / warp_threads;
  __syncthreads();  // the values of the previous scan have been read
  if (threadIdx.x % warp_threads == warp_threads - 1) of_warp[own] = up_to;
  __syncthreads();
  BlockSum<T> sum{up_to - value, 0};
  for (unsigned warp = 0; warp < blockDim.x / warp_threads; ++warp) {
    if (warp < own) sum.before += of_warp[warp];
    sum.all += of_warp[warp];
  }
  return sum;
}

/// sums[0] = 0, sums[i + 1] = value_of(0) + ... + value_of(i); one block.
template <typename ValueOf>
__global__ void __launch_bounds__(scan_threads)
    running_sums(ValueOf const value_of, std::int64_t count, std::int64_t* sums) {
  std::int64_t before = 0;
  if (threadIdx.x == 0) sums[0] = 0;
  for (std::int64_t first = 0; first < count; first += blockDim.x) {
    std::int64_t const i = first + threadIdx.x;
    std::int64_t const value = i < count ? std::int64_t{value_of(i)} : 0;
    BlockSum<std::int64_t> const sum = block_prefix(value);
    if (i < count) sums[i + 1] = before + sum.before + value;
    before += sum.all;
  }
}

/// Launches running_sums() into `sums` [count + 1].
template <typename ValueOf>
void launch_running_sums(cudaStream_t stream,
                         ValueOf const& value_of,
                         std::int64_t count,
                         std::int64_t* sums) {
  launch(running_sums<ValueOf>, 1, scan_threads, stream, value_of, count, sums);
}

}  // namespace stagecraft
