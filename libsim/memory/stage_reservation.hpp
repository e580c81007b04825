#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libsim/allocator/allocator.hpp"
#include "libsim/memory/framework_memory.hpp"
#include "libsim/plan/rank_programs.hpp"

namespace stagecraft {

/// The device memory that a rank's allocator takes for a stage's tensors, in bytes.
struct StageReservation {
  std::int64_t reserved = 0;  ///< largest amount reserved
  /// Largest amount in blocks that are in use, with rests that are not split off.
  std::int64_t allocated = 0;
  /// The same until the first iteration is logged, in whose step Adam's moments appear.
  std::int64_t first_allocated = 0;
  std::int64_t resident = 0;        ///< allocated between two iterations, after the step
  std::int64_t inactive_split = 0;  ///< fragments, when reserved was largest
  std::int64_t retries = 0;         ///< requests for which the cache was emptied
  /// Whether the capacity does not serve; the other numbers are then without a limit.
  bool runs_out = false;

  friend bool operator==(StageReservation const&, StageReservation const&) = default;
};

/// The memory of an allocator at the instant at which its reserved bytes first are largest. Bytes.
struct ReservedPeak {
  std::vector<MemoryBlock> blocks;  ///< all that is reserved, by address
  std::int64_t request = 0;         ///< the request for which it grew to this
  std::string tensor;               ///< whose buffer was requested; empty if it was not a tensor's
  bool is_in_step = false;          ///< whether the optimizer step requested it
};

/// How much is replayed.
enum class ReplayExtent : std::uint8_t {
  /// If the schedule has a steady-state loop, an iteration is replayed until the stage has held the
  /// activations of all passes in flight, and each of its tasks has run since the allocator last
  /// took memory: the rest repeats that, perhaps at other addresses. If the stage has repeated
  /// windows, repeats that change the allocator as earlier ones did are skipped
  /// (libsim/memory/repeat_search.hpp). No further iteration is replayed once it is certain that it
  /// would take no memory (libsim/allocator/growth_watch.hpp).
  until_steady,
  whole,  ///< all of each iteration, up to one that takes no memory
};

/// Replays a stage's buffers, in issue order, through the allocator that the configuration names,
/// on a device of `capacity` bytes: parameters, gradients and master weights, then whole iterations
/// until one takes no memory. Adam's moments appear in the first step.
///
/// Parameters and optimizer state have a buffer per parameter; with the distributed optimizer,
/// state has one per range that it shards. Gradients are one buffer. `framework` adds what it
/// allocates beside that. All requests are on one stream. `peak`, if given, is filled in.
StageReservation reserve_stage(StageRank const& rank,
                               std::int64_t capacity,
                               FrameworkMemory const& framework = {},
                               ReplayExtent extent = ReplayExtent::until_steady,
                               ReservedPeak* peak = nullptr);

/// Whether a device of `capacity` bytes serves the stage: as `runs_out` of reserve_stage() says,
/// but without a second replay for the numbers if it does not.
bool fits_in(StageRank const& rank, std::int64_t capacity, FrameworkMemory const& framework = {});

}  // namespace stagecraft
