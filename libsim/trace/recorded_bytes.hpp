#pragma once

#include <cstdint>

#include "libsim/plan/training_plan.hpp"
#include "libsim/program/op.hpp"

namespace stagecraft {

/// The bytes of an op as traces and reports count them: the payload of communication, the memory
/// traffic of kernels.
inline std::int64_t recorded_bytes(Op const& op) {
  return op.payload > Bytes{0} ? op.payload.count() : op.traffic.count();
}

/// What the row of a whole chunk counts: the memory traffic and FLOPs of its kernels.
struct ChunkSums {
  std::int64_t bytes = 0;
  std::int64_t flops = 0;
};
/// Pre: a forward or backward task.
ChunkSums chunk_sums(Programs const& programs, Task const& task);

}  // namespace stagecraft
