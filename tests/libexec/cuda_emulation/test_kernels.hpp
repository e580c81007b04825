#pragma once

#include <cuda_runtime_api.h>

/// Small kernels, right and wrong ones, with their launches. All memory is the device's.
namespace stagecraft::emulation::test {

enum class Barriers { present, missing };

/// sums[block] = sum of the block's 256 values, through shared memory. Without its barriers it is
/// wrong on a device, too.
cudaError_t block_sums(
    float const* values, float* sums, unsigned blocks, Barriers barriers, cudaStream_t stream);

/// sums[warp] = sum of the warp's 32 values: by __shfl_xor_sync, and lane 0's by __shfl_down_sync.
cudaError_t warp_sums(float const* values, float* by_xor, float* by_down, cudaStream_t stream);

/// received[i] = number of the thread whose value thread i of 64 gets.
enum class Shuffle { exclusive_or, down, up, index };
cudaError_t shuffled(Shuffle kind, int operand, int width, int* received, cudaStream_t stream);

/// number[i] = the place of thread i of a grid of 2 x 3 x 2 blocks of 4 x 2 x 3 threads.
cudaError_t number_threads(int* number, cudaStream_t stream);

/// found[thread] = what the block of 32 threads finds in its shared memory; it leaves zeros there.
cudaError_t read_shared(float* found, unsigned blocks, cudaStream_t stream);

/// values[i] = factor * values[i] + term
cudaError_t scale_and_add(
    float* values, float factor, float term, unsigned elements, cudaStream_t stream);

/// The same of dynamic shared memory, of which it gets `bytes`, after asking for `allowed` unless
/// 0.
cudaError_t read_dynamic_shared(
    float* found, unsigned blocks, int allowed, std::size_t bytes, cudaStream_t stream);

/// Appends its block's and its thread's number: order[length++] = block * 32 + thread.
cudaError_t record_order(int* order, int* length, unsigned blocks, cudaStream_t stream);

/// What hangs a device, or has no defined result.
enum class Mistake {
  thread_ends_before_barrier,
  two_barriers,
  barrier_against_shuffle,
  lane_ends_before_shuffle,
  half_a_mask,
  half_a_warp
};
cudaError_t run_mistake(Mistake mistake, cudaStream_t stream);

/// Launches a kernel that does nothing.
cudaError_t launch_empty(dim3 blocks, dim3 threads, cudaStream_t stream);

/// values[offset] = 1
cudaError_t write_at(float* values, long offset, cudaStream_t stream);

}  // namespace stagecraft::emulation::test
