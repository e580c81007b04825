#pragma once

#include "libsim/schedule/orders/placement.hpp"
#include "libsim/schedule/schedule_shape.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The schedule that a configuration asks for.
ScheduleShape schedule_shape(TrainingConfig const& config);

/// The stage and chunk of each virtual stage of a run. They do not depend on its batch.
Placement placement_of(TrainingConfig const& config);

/// \throws ScheduleError  if the order has a task for recompute on a stage whose policy does not
/// recompute early.
void check_recompute_tasks(TrainingConfig const& config, PipelineOrder const& order);

}  // namespace stagecraft
