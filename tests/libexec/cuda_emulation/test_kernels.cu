#include <cuda_runtime.h>

#include "tests/libexec/cuda_emulation/test_kernels.hpp"

namespace stagecraft::emulation::test {
namespace {

constexpr unsigned all_lanes = 0xffffffffU;

template <typename... Parameters, typename... Arguments>
cudaError_t start(void (*kernel)(Parameters...),
                  dim3 blocks,
                  dim3 threads,
                  cudaStream_t stream,
                  Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

template <Barriers barriers>
__global__ void __launch_bounds__(256) block_sum(float const* values, float* sums) {
  __shared__ float shared[256];
  unsigned const i = threadIdx.x;
  shared[i] = __ldg(&values[blockIdx.x * 256 + i]);
  for (unsigned width = 128; width > 0; width /= 2) {
    if (barriers == Barriers::present) __syncthreads();
    if (i < width) shared[i] += shared[i + width];
  }
  if (i == 0) sums[blockIdx.x] = shared[0];
}

__global__ void warp_sum(float const* values, float* by_xor, float* by_down) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = values[i];
  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(all_lanes, sum, mask);
  float down = values[i];
  for (unsigned delta = 16; delta > 0; delta /= 2) down += __shfl_down_sync(all_lanes, down, delta);
  // Every lane has the sum of the first kind, lane 0 that of the second.
  if (i % 32 == 7) by_xor[i / 32] = sum;
  if (i % 32 == 0) by_down[i / 32] = down;
}

__global__ void shuffle_numbers(Shuffle kind, int operand, int width, int* received) {
  int const mine = static_cast<int>(threadIdx.x);
  int other = -1;
  auto const delta = static_cast<unsigned>(operand);
  if (kind == Shuffle::exclusive_or) other = __shfl_xor_sync(all_lanes, mine, operand, width);
  if (kind == Shuffle::down) other = __shfl_down_sync(all_lanes, mine, delta, width);
  if (kind == Shuffle::up) other = __shfl_up_sync(all_lanes, mine, delta, width);
  if (kind == Shuffle::index) other = __shfl_sync(all_lanes, mine, operand, width);
  received[mine] = other;
}

__global__ void number(int* numbers) {
  unsigned const block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  unsigned const thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  unsigned const i = block * blockDim.x * blockDim.y * blockDim.z + thread;
  numbers[i] = static_cast<int>(i);
}

__global__ void look(float* found) {
  __shared__ float shared[32];
  found[blockIdx.x * 32 + threadIdx.x] = shared[threadIdx.x];
  shared[threadIdx.x] = 0;
}

__global__ void scale_add(float* values, float factor, float term, unsigned elements) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < elements) values[i] = factor * values[i] + term;
}

__global__ void append(int* order, int* length) {
  order[*length] = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  *length += 1;
}

__global__ void do_mistake(Mistake mistake) {
  int const i = static_cast<int>(threadIdx.x);
  switch (mistake) {
    case Mistake::thread_ends_before_barrier:
      if (i == 5) return;
      __syncthreads();
      break;
    case Mistake::two_barriers:
      if (i < 32) {
        __syncthreads();
      } else {
        __syncthreads();
      }
      break;
    case Mistake::barrier_against_shuffle:
      if (i % 32 < 16) {
        __syncthreads();
      } else {
        __shfl_xor_sync(all_lanes, i, 1);
      }
      break;
    case Mistake::lane_ends_before_shuffle:
      if (i != 33) __shfl_down_sync(all_lanes, i, 1);
      break;
    case Mistake::half_a_mask:
      __shfl_xor_sync(0xffffU, i, 1);
      break;
    case Mistake::half_a_warp:
      if (i >= 64) __shfl_xor_sync(all_lanes, i, 1);
      break;
  }
}

__global__ void empty() {}

__global__ void write(float* values, long offset) { values[offset] = 1; }

__global__ void read_and_clear_dynamic(float* found) {
  auto* const values = static_cast<float*>(dynamic_shared_memory());
  found[blockIdx.x * blockDim.x + threadIdx.x] = values[threadIdx.x];
  values[threadIdx.x] = 0;
}

}  // namespace

cudaError_t block_sums(
    float const* values, float* sums, unsigned blocks, Barriers barriers, cudaStream_t stream) {
  auto* const kernel =
      barriers == Barriers::present ? block_sum<Barriers::present> : block_sum<Barriers::missing>;
  return start(kernel, blocks, 256, stream, values, sums);
}

cudaError_t warp_sums(float const* values, float* by_xor, float* by_down, cudaStream_t stream) {
  return start(warp_sum, 3, 128, stream, values, by_xor, by_down);
}

cudaError_t shuffled(Shuffle kind, int operand, int width, int* received, cudaStream_t stream) {
  return start(shuffle_numbers, 1, 64, stream, kind, operand, width, received);
}

cudaError_t number_threads(int* numbers, cudaStream_t stream) {
  return start(number, {2, 3, 2}, {4, 2, 3}, stream, numbers);
}

cudaError_t read_dynamic_shared(
    float* found, unsigned blocks, int allowed, std::size_t bytes, cudaStream_t stream) {
  if (allowed != 0) {
    cudaError_t const status = cudaFuncSetAttribute(
        read_and_clear_dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, allowed);
    if (status != cudaSuccess) return status;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = 32;
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, read_and_clear_dynamic, found);
}

cudaError_t read_shared(float* found, unsigned blocks, cudaStream_t stream) {
  return start(look, blocks, 32, stream, found);
}

cudaError_t scale_and_add(
    float* values, float factor, float term, unsigned elements, cudaStream_t stream) {
  return start(scale_add, (elements + 127) / 128, 128, stream, values, factor, term, elements);
}

cudaError_t record_order(int* order, int* length, unsigned blocks, cudaStream_t stream) {
  return start(append, blocks, 32, stream, order, length);
}

cudaError_t run_mistake(Mistake mistake, cudaStream_t stream) {
  return start(do_mistake, 1, mistake == Mistake::half_a_warp ? 80 : 64, stream, mistake);
}

cudaError_t launch_empty(dim3 blocks, dim3 threads, cudaStream_t stream) {
  return start(empty, blocks, threads, stream);
}

cudaError_t write_at(float* values, long offset, cudaStream_t stream) {
  return start(write, 1, 1, stream, values, offset);
}

}  // namespace stagecraft::emulation::test
