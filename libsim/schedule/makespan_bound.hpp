#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "libsim/schedule/memory_changes.hpp"
#include "libsim/schedule/placement.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Costs of split backwards in whole ticks.
struct SplitTicks {
  SimTime forward{0};
  SimTime input_gradient{0};
  SimTime weight_gradient{0};
  SimTime transfer{0};
  /// What a whole backward takes less than its two halves one after the other; not negative.
  SimTime joint{0};
  /// What it does beside these, anywhere between the forward and the end of the backward.
  SimTime recompute{0};
};

/// The costs of each virtual stage.
class StageTicks {
 public:
  explicit StageTicks(SplitTicks const& of_all) : ticks_{of_all} {}
  explicit StageTicks(std::vector<SplitTicks> by_virtual_stage)
      : ticks_{std::move(by_virtual_stage)} {}

  SplitTicks const& of(VirtualStageId virtual_stage) const {
    return ticks_[ticks_.size() == 1 ? 0 : virtual_stage.index()];
  }
  /// Whether some whole backward takes less than its halves: it then pays to join adjacent ones.
  bool joins() const {
    return std::any_of(ticks_.begin(), ticks_.end(),
                       [](SplitTicks const& ticks) { return ticks.joint > SimTime{0}; });
  }

 private:
  std::vector<SplitTicks> ticks_;
};

/// A makespan that no order undercuts, on a placement of one copy of the model, whether its
/// backwards are split or whole.
///
/// The largest over all stages of two bounds. Time: a stage waits for its first input, and for its
/// first gradient longer than the forwards that fit into its memory last; then it runs all
/// forwards, recomputes and gradients; and behind its last gradient all weight gradients, or what
/// the stages before it still have to do. Memory: each forward holds its memory at least while its
/// microbatch goes to the end of the model and back. `memory_limit` is in the unit of `memory`.
/// Pre: a forward changes memory by more than 0.
SimTime makespan_bound(Placement const& placement,
                       int microbatches,
                       StageTicks const& costs,
                       MemoryChanges const& memory,
                       double memory_limit);

}  // namespace stagecraft
