#pragma once

#include "libsim/plan/training_plan.hpp"
#include "libsim/training/settled_config.hpp"

namespace stagecraft {

/// Lays out an iteration. Pre: `config` was checked by its reader.
/// \throws ScheduleError  if no schedule has the configuration's shape.
TrainingPlan make_plan(SettledConfig const& config);

}  // namespace stagecraft
