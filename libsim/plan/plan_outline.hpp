#pragma once

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// A plan without programs: configuration, sizes of a rank's share of one microbatch, and groups.
TrainingPlan make_outline(TrainingConfig const& config);

}  // namespace stagecraft
