#pragma once

#include <cstddef>

#include "libsim/hardware/system.hpp"

namespace stagecraft {

/// What NCCL's collectives and messages take inside of this machine; see CollectiveCost.
struct NcclCosts {
  CollectiveCost all_reduce;
  CollectiveCost all_gather;
  CollectiveCost reduce_scatter;
  CollectiveCost message;
};

/// Whether this build has NCCL.
bool can_measure_nccl();

/// Of the tensors that are measured with, in bytes: from the smallest in steps of four to the
/// largest.
struct NcclSizes {
  std::size_t smallest = std::size_t{64} << 10;
  std::size_t largest = std::size_t{256} << 20;
};

/// Measures them among GPUs [0, ranks) of this machine, a thread of this process for each: tensors
/// in bf16, medians of times between events.
/// Pre: ranks > 1, and as many GPUs.
/// \throws CommunicationError, DeviceError
NcclCosts measure_nccl(int ranks, NcclSizes const& sizes = {});

}  // namespace stagecraft
