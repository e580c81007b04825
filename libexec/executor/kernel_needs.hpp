#pragma once

#include "libexec/kernels/kernel_call.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The needs of a plan's kernels. `tensor_rank` is the rank's index in its tensor group.
KernelNeeds kernel_needs(TrainingPlan const& plan, int tensor_rank);

}  // namespace stagecraft
