#pragma once

#include "libsim/schedule/orders/chunk_costs.hpp"
#include "libsim/schedule/orders/played_order.hpp"
#include "libsim/schedule/pipeline_schedule.hpp"

namespace stagecraft {

/// Plays a schedule with its messages as they are issued, with costs in place of programs. A stage
/// ends with its last message if that is later than its last computation.
/// \throws ScheduleError  if check_costs() does.
PlayedOrder play_schedule(PipelineSchedule const& schedule, ChunkCosts const& costs);

}  // namespace stagecraft
