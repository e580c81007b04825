#pragma once

#include "libexec/kernels/kernel_call.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// What the kernels of a rank of a plan are made for. `tensor_rank`: its place in the tensor group.
KernelNeeds kernel_needs(TrainingPlan const& plan, int tensor_rank);

}  // namespace stagecraft
