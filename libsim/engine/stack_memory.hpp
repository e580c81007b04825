#pragma once

#include "libsim/hardware/system.hpp"
#include "libsim/memory/framework_memory.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The memory that the software stack allocates beside the op program in this run. The lead of its
/// host follows from the times of the plan's blocks.
FrameworkMemory stack_memory(TrainingPlan const& plan, System const& system);

}  // namespace stagecraft
