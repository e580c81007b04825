#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libsim/allocator/allocator.hpp"
#include "libsim/memory/framework_memory.hpp"
#include "libsim/plan/rank_programs.hpp"

namespace stagecraft {

/// What the allocator of a rank takes from the device for a stage's tensors, in bytes.
struct StageReservation {
  std::int64_t reserved = 0;        ///< most at any time
  std::int64_t allocated = 0;       ///< most in blocks that are in use, with what is not split off
  std::int64_t inactive_split = 0;  ///< fragments, when reserved was largest
  std::int64_t retries = 0;         ///< requests for which the cache was released
  bool runs_out = false;  ///< of the capacity; the other numbers are then those without a limit

  friend bool operator==(StageReservation const&, StageReservation const&) = default;
};

/// What an allocator holds at the instant at which it first has reserved most. Bytes.
struct ReservedPeak {
  std::vector<MemoryBlock> blocks;  ///< all that is reserved, by address
  std::int64_t request = 0;         ///< what was asked for when it grew to this
  std::string tensor;               ///< whose buffer that was; empty if it was no tensor's
  bool is_in_step = false;          ///< whether it was of the optimizer step
};

/// How much is replayed.
enum class ReplayExtent : std::uint8_t {
  /// If the schedule has a steady-state loop, an iteration is replayed until the stage has held the
  /// activations of all passes in flight and each of its tasks has run since the allocator last
  /// took
  /// memory: what follows repeats that, perhaps at other addresses. If the stage has repeated
  /// windows, repeats that do to the allocator what earlier ones did are skipped
  /// (libsim/memory/repeat_search.hpp). No further iteration is replayed once it is certain that it
  /// would take no memory (libsim/allocator/growth_watch.hpp).
  until_steady,
  whole,  ///< all of each iteration, and a last one that takes no memory
};

/// Replays a stage's buffers, in issue order, through the allocator that the configuration names,
/// on a device of `capacity` bytes: parameters, gradients and master weights, then whole iterations
/// until one takes no memory. Adam's moments appear in the first step.
///
/// Parameters and optimizer state are a buffer per parameter (with the distributed optimizer, state
/// is one per range that it shards), gradients are one buffer. `framework` adds what it allocates
/// beside that. All requests are of one stream. `peak`, if given, is filled in.
StageReservation reserve_stage(StageRank const& rank,
                               std::int64_t capacity,
                               FrameworkMemory const& framework = {},
                               ReplayExtent extent = ReplayExtent::until_steady,
                               ReservedPeak* peak = nullptr);

/// Whether that much memory serves the stage: `runs_out` of the above, without replaying a second
/// time for the numbers where it does not.
bool fits_in(StageRank const& rank, std::int64_t capacity, FrameworkMemory const& framework = {});

}  // namespace stagecraft
