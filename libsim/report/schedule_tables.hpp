#pragma once

#include <string>

#include "libsim/engine/schedule_timeline.hpp"
#include "libsim/plan/pipeline_schedule.hpp"

namespace stagecraft {

/// A played schedule as text: a line that says what it is, one with makespan and bubble, a table of
/// the ranks (chunks in flight, and where the time goes, in the unit of the costs), and each rank's
/// order, cut to `width` columns.
std::string schedule_tables(PipelineSchedule const& schedule,
                            ScheduleTimeline const& played,
                            int width);

}  // namespace stagecraft
