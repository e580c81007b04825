#pragma once

#include <optional>
#include <string>

#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// The distance of a schedule from the best that is possible.
struct ScheduleBound {
  std::optional<SimTime> iteration;  ///< a lower bound for any amount of memory
  std::string reason;                ///< why there is none
  /// A larger lower bound, for orders that fit into the memory of their accelerators.
  std::optional<SimTime> in_memory;
  std::string reason_in_memory;  ///< why there is none
};

/// A lower bound of the iteration of any order of a plan's passes. The order has as many chunks per
/// stage, in a loop or, if they are two, in a V; its backwards are split or whole.
///
/// The bound is the sum of three terms. makespan_bound() has the times of each chunk and the
/// shortest message; recompute keeps its stage busy there, but may run whenever the stage waits. To
/// that come the shortest step of a stage, without the part that may run beside passes, and the
/// system's overhead per iteration.
///
/// In memory: a microbatch holds on a stage what its forward and later its input gradient leave
/// there. The stage has the room that parameters, gradients and optimizer state leave. Memory of
/// messages and temporaries is left out. The room is the larger of the limits by counted bytes and
/// by the allocator. Which of the two decides depends on the run; a plan that fits by either holds
/// no more than the larger, so this stays a bound.
/// \throws CostError  if the system cannot cost the plan.
ScheduleBound schedule_bound(TrainingPlan const& plan, System const& system);

}  // namespace stagecraft
