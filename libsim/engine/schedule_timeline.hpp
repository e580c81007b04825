#pragma once

#include <vector>

#include "libsim/engine/timeline.hpp"
#include "libsim/plan/pipeline_schedule.hpp"
#include "libsim/plan/stage_order.hpp"

namespace stagecraft {

/// What a schedule's parts cost, the same on every stage, in a unit of the caller's choice.
struct ChunkCosts {
  double forward = 1;   ///< of one microbatch through one chunk
  double backward = 2;  ///< likewise
  double transfer = 0;  ///< from the start of a message to its arrival; messages do not queue

  double of(Part part) const { return part == Part::forward ? forward : backward; }
};

/// One computation of a stage, placed in time.
struct ChunkSpan {
  ChunkRun run;
  SimTime start{0};
  SimTime end{0};
};

/// A schedule alone, played with uniform costs.
struct ScheduleTimeline {
  Timeline timeline;
  std::vector<std::vector<ChunkSpan>> computations;  ///< by stage, in order
  double ticks_per_unit = 1;  ///< SimTime ticks that stand for one unit of the costs

  double in_units(SimTime time) const { return static_cast<double>(time.count()) / ticks_per_unit; }
};

/// Plays a schedule with costs in place of programs.
///
/// Costs become whole ticks of a decimal fraction of the unit, 10^11 to 10^12 ticks for the largest
/// (fewer above a million chunks in all), so costs of few digits are exact and so is their sum.
/// \throws ScheduleError  unless costs are 0 or from 1e-100 to 1e100 and some computation has one
///         above 0.
ScheduleTimeline play_schedule(PipelineSchedule const& schedule, ChunkCosts const& costs);

}  // namespace stagecraft
