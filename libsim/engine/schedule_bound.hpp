#pragma once

#include <optional>
#include <string>

#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// How far a schedule is from the best that could be.
struct ScheduleBound {
  std::optional<SimTime> iteration;  ///< a lower bound in whatever memory
  std::string reason;                ///< if there is none
  /// A larger one of orders that fit into the memory of their accelerators.
  std::optional<SimTime> in_memory;
  std::string reason_in_memory;  ///< if there is none
};

/// An iteration that no order of a plan's passes undercuts, with as many chunks per stage, in a
/// loop or, if they are two, in a V, and with backwards split or whole.
///
/// It is makespan_bound() with what each chunk takes and the shortest message, in which recompute
/// keeps its stage busy but may run wherever that waits; then the shortest step of a stage, of
/// which what may run behind passes is left out, and what the system adds to each iteration.
///
/// In memory, a microbatch holds on a stage what its forward, later its input gradient, leaves
/// there; the stage has room for what is beside parameters, gradients and optimizer state. What
/// messages and temporaries hold is left out. The room is the larger of what the counted bytes may
/// be and what the allocator may reserve. Which of the two decides whether a plan fits depends on
/// the run; one that fits by either holds no more than the larger, so this stays a bound.
/// \throws std::invalid_argument  if the system cannot cost the plan.
ScheduleBound schedule_bound(TrainingPlan const& plan, System const& system);

}  // namespace stagecraft
