#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "libsim/schedule/orders/memory_changes.hpp"
#include "libsim/schedule/orders/placement.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Costs of split backwards in whole ticks.
struct SplitTicks {
  SimTime forward{0};
  SimTime input_gradient{0};
  SimTime weight_gradient{0};
  SimTime transfer{0};
  /// The time that a whole backward saves over its two halves one after the other; not negative.
  SimTime joint{0};
  /// The duration of recompute, anywhere between the forward and the end of the backward.
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

/// The least memory that a microbatch holds on a virtual stage, in any unit.
struct HeldMemory {
  double in_flight = 0;    ///< from the start of its forward to the end of its input gradient
  double for_weights = 0;  ///< from there to the end of its weight gradient
};

/// The memory that microbatches hold on stages, and the memory that stages have.
struct StageRooms {
  std::vector<HeldMemory> held;  ///< by virtual stage; not negative
  std::vector<double> room;      ///< by stage
};

/// A lower bound of the makespan of any order, on a placement of one copy of the model, whether its
/// backwards are split or whole. None if not even one microbatch fits on each stage.
///
/// It is the largest of two bounds over all stages. A microbatch is called open on a virtual stage
/// from the start of its forward to the end of its input gradient.
///
/// Time: a stage waits for its first input, and for its first gradient if the forwards that fit
/// into its memory end earlier. It runs all forwards, recomputes and gradients. After its last
/// gradient it runs all weight gradients, or the stages before it still have work, whichever takes
/// longer.
///
/// Memory: the microbatches that are open on a stage at one time fit into its room U. A pass of the
/// stage runs alone, so all that is open while it runs is held at once: at the end of a forward,
/// which the stage holds as well, or at the start of any other pass. A microbatch is open at least
/// for R, the time from there to the end of the model and back, alone in the pipeline. It holds h
/// all that time; n of them hold n R h, summed over the stage's chunks, in a time T in which never
/// more than U is held: T >= n R h / U. Before T the first microbatch comes to the stage; after T
/// the last gradient goes back to the first stage. Memory for a weight gradient counts in the same
/// way, at least while that runs (in a whole backward, too, at whose start all of it is held): then
/// T ends with the last weight gradient of the stage. If at most two sizes are held, U is rounded
/// down to what they can fill of it: with k microbatches in flight, T >= n R / k.
std::optional<SimTime> makespan_bound(Placement const& placement,
                                      int microbatches,
                                      StageTicks const& costs,
                                      StageRooms const& rooms);

/// The same if the memory changes are equal on all virtual stages, and each stage has room for
/// `memory_limit`, in the unit of `memory`. Pre: a forward changes memory by more than 0.
SimTime makespan_bound(Placement const& placement,
                       int microbatches,
                       StageTicks const& costs,
                       MemoryChanges const& memory,
                       double memory_limit);

}  // namespace stagecraft
