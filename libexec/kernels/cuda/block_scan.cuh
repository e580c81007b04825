#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cub/block/block_scan.cuh>

#include "libexec/kernels/cuda/launch.cuh"
#include "libexec/kernels/cuda/row_block.cuh"

/// Sums of whole numbers in the order of threads, by which rows get their places. CUB adds them in
/// any order, which whole numbers allow; sums of other numbers are this library's (row_block.cuh),
/// whose order depends on the operands alone.
namespace stagecraft {

inline constexpr int scan_threads = 256;

/// A sum over the threads of a block.
template <typename T>
struct BlockSum {
  T before;  ///< of the threads before this one
  T all;
};

/// All threads of a block of scan_threads threads, all in x, call it.
template <typename T>
__device__ BlockSum<T> block_prefix(T value) {
  using Scan = cub::BlockScan<T, scan_threads>;
  __shared__ typename Scan::TempStorage storage;
  __syncthreads();  // the previous scan no longer needs it
  BlockSum<T> sum;
  Scan{storage}.ExclusiveSum(value, sum.before, sum.all);
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
