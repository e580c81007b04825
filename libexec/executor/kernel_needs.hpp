#pragma once

#include "libexec/kernels/kernel_call.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The rows of each sequence that a rank has.
SequencePart sequence_part(TrainingPlan const& plan, RankPlace const& place);

/// The needs of the kernels of a rank.
KernelNeeds kernel_needs(TrainingPlan const& plan, RankId rank);

}  // namespace stagecraft
