#pragma once

#include <cstddef>

#include "libexec/calibration/measurement.hpp"
#include "libsim/hardware/system.hpp"

namespace stagecraft {

/// The latency and bandwidth that give the times of two sizes (bytes that a rank moves, seconds).
CollectiveCost line_through(double small_bytes, double small, double large_bytes, double large);

/// The latency and bandwidth of a collective among `ranks` threads of this process, from the times
/// of a small and a large tensor. Bytes are counted as the model of a CollectiveCost counts them.
CollectiveCost measure_thread_collective(OpKind kind, int ranks, SteadyMedians& medians);

/// The same for a message from one thread to another.
CollectiveCost measure_thread_message(SteadyMedians& medians);

/// The costs of NCCL's collectives and messages within this machine; see CollectiveCost.
struct NcclCosts {
  CollectiveCost all_reduce;
  CollectiveCost all_gather;
  CollectiveCost reduce_scatter;
  CollectiveCost message;
};

/// Whether this build has NCCL.
bool can_measure_nccl();

/// The sizes of the measured tensors in bytes: from the smallest by factors of four to the
/// largest.
struct NcclSizes {
  std::size_t smallest = std::size_t{64} << 10;
  std::size_t largest = std::size_t{256} << 20;
};

/// Measures them among GPUs [0, ranks) of this machine, with one thread of this process each:
/// tensors in bf16, medians of times between events.
/// Pre: ranks > 1, and there are as many GPUs.
/// \throws CommunicationError, DeviceError
NcclCosts measure_nccl(int ranks, NcclSizes const& sizes = {});

}  // namespace stagecraft
