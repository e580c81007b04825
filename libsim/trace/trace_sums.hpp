#pragma once

#include <cstdint>
#include <limits>
#include <map>

#include "libsim/plan/training_plan.hpp"
#include "libsim/program/category_bytes.hpp"
#include "libsim/program/op.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_names.hpp"

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

/// a + b, or the nearest representable number if that overflows: numbers from a file can have any
/// sum.
inline std::int64_t bounded_sum(std::int64_t a, std::int64_t b) {
  using Limits = std::numeric_limits<std::int64_t>;
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? Limits::min() : Limits::max();
}

/// What a rank held at its peak: the first row whose sum without workspace is largest, with
/// the largest workspace of any row. All values are zero if there are no rows.
struct MemoryPeak {
  std::int64_t time = 0;  ///< ps since the start of the iteration
  CategoryBytes at_peak;
};

MemoryPeak peak_of(MemoryColumns const& memory);

/// What a rank's time goes to, in ps, by the rows of a trace. The parts do not overlap: what is
/// left of an iteration is the bubble, in which the rank waits for others.
struct StreamTimes {
  std::int64_t end = 0;  ///< when the last row ends
  /// Its compute stream, but for waits and the rows of data_parallel, and the collectives of layers
  /// that it stands still for.
  std::int64_t computing = 0;
  std::int64_t host_wait = 0;      ///< it waits until the host has issued what comes next
  std::int64_t transfer = 0;       ///< it does not compute, and one of its messages is in flight
  std::int64_t data_parallel = 0;  ///< neither, and gradients or parameters travel
  std::int64_t offload = 0;        ///< none of these, and the host or its link is busy
  /// Parts of `computing` in which the compute stream stands still, by the phase of the collective.
  std::map<TracePhase, std::int64_t> collectives;

  std::int64_t busy() const { return computing + host_wait; }
  /// Bubble, and communication that no computation hides.
  std::int64_t waiting(std::int64_t iteration) const { return iteration - busy(); }
  /// What is left of an iteration.
  std::int64_t bubble(std::int64_t iteration) const {
    return iteration - busy() - transfer - data_parallel - offload;
  }
};

StreamTimes stream_times(RankTrace const& rank, KnownNames const& names);

}  // namespace stagecraft
