#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/allocator/allocation_sequence.hpp"
#include "libsim/allocator/allocator.hpp"

namespace stagecraft {

/// Counters at a checkpoint of a sequence.
struct AllocationCheckpoint {
  std::int64_t n = 0;  ///< allocations so far
  std::int64_t allocated = 0;
  std::int64_t reserved = 0;
  std::int64_t inactive_split = 0;
};

/// What an allocator did with a sequence.
struct AllocationReplay {
  std::optional<std::int64_t> oom_at;  ///< the first allocation, from 1, that failed
  std::int64_t oom_bytes = 0;          ///< what that asked for
  std::int64_t n = 0;                  ///< allocations, the failed one included
  AllocatorCounters end;
  std::int64_t inactive_split_at_peak = 0;  ///< when reserved was largest for the first time
  std::vector<AllocationCheckpoint> checkpoints;
};

/// Replays a sequence until its end, or until the allocator has no memory left for a request that
/// was served when it was recorded. One that was refused then may be refused again, because the
/// program went on; if it is served, what it gets is freed at once. A request of zero bytes counts
/// as an allocation but takes no block.
AllocationReplay replay(AllocationSequence const& sequence, Allocator& allocator);

}  // namespace stagecraft
