#pragma once

#include <optional>
#include <string>

#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// How far a schedule is from the best that could be.
struct ScheduleBound {
  std::optional<SimTime> iteration;  ///< a lower bound
  std::string reason;                ///< if there is none
};

/// An iteration that no order of a plan's passes undercuts, in whatever memory: with as many chunks
/// per stage, in a loop or, if they are two, in a V, and with backwards split or whole.
///
/// It is makespan_bound() with what each chunk takes and the shortest message, in which recompute
/// keeps its stage busy but may run wherever that waits; then the shortest step of a stage, of
/// which what may run behind passes is left out, and what the system adds to each iteration.
/// \throws std::invalid_argument  if the system cannot cost the plan.
ScheduleBound schedule_bound(TrainingPlan const& plan, System const& system);

}  // namespace stagecraft
