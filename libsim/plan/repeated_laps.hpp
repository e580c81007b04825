#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/plan/buffer_events.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Finds where an iteration goes on as it did before, exactly, so that a replay may leave it out.
///
/// A lap ends when a microbatch leaves the stage's first chunk. If the state of a replay after two
/// laps is the same but for the numbers of microbatches and buffers, and the laps that follow the
/// one issue the same tasks and messages as those that follow the other, then the replay repeats
/// itself for as long as that holds.
class RepeatedLaps {
 public:
  explicit RepeatedLaps(StagePlan const& stage);

  /// The replay begins an iteration, or has changed what no fingerprint tells.
  void forget() { seen_.clear(); }

  /// Whether a lap ends with the entry of the issue order.
  bool is_end(std::int32_t entry) const { return laps_of_[static_cast<std::size_t>(entry)] >= 0; }

  /// What may be left out after the entry, at which `events` is; nullopt if there is nothing.
  /// `state` is a fingerprint of all that decides what the replay does next, but for `events`.
  /// Pre: is_end(events.entry()).
  std::optional<LeftOut> after(BufferEvents const& events, std::uint64_t state);

 private:
  struct Lap {
    std::int32_t entry = 0;       ///< its last
    std::int32_t microbatch = 0;  ///< that has left the first chunk
    std::int32_t first = 0;       ///< of the microbatches that entries behind it refer to
    std::int32_t end = 0;         ///< of those that entries up to it refer to, and 1
    std::uint64_t content = 0;    ///< of its entries
  };
  struct Seen {
    std::uint64_t state = 0;
    std::int32_t lap = 0;
    std::int64_t buffers = 0;
  };

  std::vector<Lap> laps_;
  std::vector<std::int32_t> laps_of_;  ///< by entry: the lap that it ends, or -1
  std::vector<Seen> seen_;
};

}  // namespace stagecraft
