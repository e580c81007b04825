#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "libexec/comm/cuda/nccl_comm.hpp"
#include "libexec/kernels/cuda/cuda_handles.hpp"

namespace stagecraft {

/// Numbers in the host's memory that all ranks of a communicator exchange, by way of the devices.
/// All of them make the same calls in the same order, and the host waits for the other ranks as
/// long as it takes. The device is the calling thread's.
class NcclNumbers {
 public:
  using Numbers = std::vector<std::int64_t>;

  /// The communicator outlives it; `pool` is where buffers on the device come from. `rank` of
  /// `size`: this one in the communicator.
  NcclNumbers(NcclComm& comm, int rank, int size, cudaMemPool_t pool);

  /// Returns what each rank has, by rank, of any lengths. \throws CommunicationError, DeviceError
  std::vector<Numbers> all_gather(Numbers const& own);
  /// The same on rank 0; nothing elsewhere, so that large numbers are not kept by all.
  std::vector<Numbers> gather(Numbers const& own);

  /// As ProcessWorld::clock_offset().
  std::chrono::nanoseconds clock_offset();

 private:
  /// \returns what each rank has, if it `keeps` it
  std::vector<Numbers> exchange(Numbers const& own, bool keeps);
  /// Each rank's `count` numbers, one rank's behind the other's; `own` may have fewer.
  Numbers exchange_equal(std::span<std::int64_t const> own, std::size_t count);

  NcclComm& comm_;
  std::size_t rank_;
  std::size_t size_;
  cudaMemPool_t pool_;
  CudaStream stream_;
};

}  // namespace stagecraft
