#pragma once

#include <optional>

#include "apps/stagecraft-exec/device_choice.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Refuses, before anything is allocated, a plan whose ranks in this process hold more at their
/// peaks, without workspace, than the machine or the GPU has available: Linux would end the process
/// without a message. `rank`: the only rank in this process; nullopt if all ranks are.
/// \throws MemoryLimitError
void require_memory(TrainingPlan const& plan,
                    DeviceChoice const& device,
                    std::optional<RankId> rank);

}  // namespace stagecraft
