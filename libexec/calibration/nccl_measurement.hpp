#pragma once

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

/// Measures them among GPUs [0, ranks) of this machine, a thread of this process for each: tensors
/// of 64 KiB to 256 MiB in bf16, medians of times between events.
/// Pre: ranks > 1, and as many GPUs.
/// \throws CommunicationError, DeviceError
NcclCosts measure_nccl(int ranks);

}  // namespace stagecraft
