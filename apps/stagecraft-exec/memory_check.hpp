#pragma once

#include <optional>

#include "apps/stagecraft-exec/device_choice.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Refuses, before anything is allocated, a plan whose ranks in this process hold more at their
/// peaks, workspace not counted, than the machine has available or the GPU free: the kernel would
/// end the process without a word. `rank`: the only one in this process; nullopt if all are.
/// \throws MemoryLimitError
void require_memory(TrainingPlan const& plan, DeviceChoice const& device, std::optional<int> rank);

}  // namespace stagecraft
