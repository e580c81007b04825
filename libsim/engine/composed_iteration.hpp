#pragma once

#include <map>
#include <vector>

#include "libsim/engine/player/costed_plan.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// A task of a stage with its duration, measured while the stage's rank ran alone, so that no
/// data-parallel stream slowed it down.
struct MeasuredTask {
  Task task;
  SimTime duration{0};  ///< median over the iteration; the only duration of a task that runs once
};

/// The durations of a rank's tasks, by task, from its trace at chunk detail. Tasks that the
/// iteration never ran are left out.
/// \throws std::invalid_argument  unless the trace has one row for each task that the rank runs.
std::vector<MeasuredTask> measured_tasks(StagePlan const& rank, RankTrace const& trace);

/// The iteration time of a plan whose stages take measured times. Its tasks run one by one as
/// play() has them, with messages at their cost. A stage that was not measured is like the nearest
/// measured stage of its recompute policy that is neither the first nor the last. The result does
/// not include what a system adds to each iteration.
///
/// \param stages  measured tasks by stage, of this plan or of one with another number of
///        microbatches: a few of them show a stage's steady state.
/// \throws std::invalid_argument  if a task of the plan was not measured; it names the stage.
SimTime compose_iteration(CostedPlan const& costed,
                          std::map<StageId, std::vector<MeasuredTask>> const& stages);

}  // namespace stagecraft
