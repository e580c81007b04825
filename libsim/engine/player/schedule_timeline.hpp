#pragma once

#include "libsim/schedule/orders/chunk_costs.hpp"
#include "libsim/schedule/orders/played_order.hpp"
#include "libsim/schedule/pipeline_schedule.hpp"

namespace stagecraft {

/// Plays a schedule, with its messages as they are issued, with costs in place of programs. The end
/// of a stage is that of its last message if that is later than its last computation.
/// \throws ScheduleError  if check_costs() does.
PlayedOrder play_schedule(PipelineSchedule const& schedule, ChunkCosts const& costs);

}  // namespace stagecraft
