#pragma once

#include <string>

#include "libsim/engine/schedule_timeline.hpp"
#include "libsim/plan/pipeline_schedule.hpp"

namespace stagecraft {

/// The timeline of a schedule as text: a title line, a line with makespan and bubble, a table of
/// the ranks (chunks in flight, and what the time is spent on, in the unit of the costs), and the
/// order of each rank, cut to `width` columns.
std::string schedule_tables(PipelineSchedule const& schedule,
                            ScheduleTimeline const& played,
                            int width);

}  // namespace stagecraft
