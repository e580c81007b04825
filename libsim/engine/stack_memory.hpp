#pragma once

#include "libsim/hardware/system.hpp"
#include "libsim/memory/framework_memory.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// What the software stack allocates beside the op program in this run: how far its host gets ahead
/// follows from the times of the plan's blocks.
FrameworkMemory stack_memory(TrainingPlan const& plan, System const& system);

}  // namespace stagecraft
