#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "libexec/comm/cuda/nccl_comm.hpp"
#include "libexec/kernels/cuda/cuda_handles.hpp"

namespace stagecraft {

/// Exchanges numbers in host memory between all ranks of a communicator, through their devices. All
/// ranks make the same calls in the same order; the host waits for the other ranks without a
/// timeout. The device is the calling thread's.
class NcclNumbers {
 public:
  using Numbers = std::vector<std::int64_t>;

  /// The communicator must outlive the object. Buffers on the device come from `pool`. `rank` is
  /// this rank's index in the communicator, which has `size` ranks.
  NcclNumbers(NcclComm& comm, int rank, int size, cudaMemPool_t pool);

  /// Returns the numbers of all ranks, by rank; lengths may differ.
  /// \throws CommunicationError, DeviceError
  std::vector<Numbers> all_gather(Numbers const& own);
  /// The same on rank 0; elsewhere returns an empty list, so that not every rank stores all
  /// numbers.
  std::vector<Numbers> gather(Numbers const& own);

  /// As ProcessWorld::clock_offset().
  std::chrono::nanoseconds clock_offset();

 private:
  /// Returns the numbers of all ranks if this rank `keeps` them.
  std::vector<Numbers> exchange(Numbers const& own, bool keeps);
  /// Returns `count` numbers of each rank, concatenated by rank; `own` may have fewer.
  Numbers exchange_equal(std::span<std::int64_t const> own, std::size_t count);

  NcclComm& comm_;
  std::size_t rank_;
  std::size_t size_;
  cudaMemPool_t pool_;
  CudaStream stream_;
};

}  // namespace stagecraft
