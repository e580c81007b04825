#pragma once

#include <map>
#include <vector>

#include "libsim/engine/player/costed_plan.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// A task of a stage and how long it took where the stage's rank ran alone, so that no
/// data-parallel stream slowed it down.
struct MeasuredTask {
  Task task;
  SimTime duration{0};  ///< median over the iteration; of what happens once in it, the one time
};

/// What the tasks of a rank took, by task, from its trace at chunk detail. Tasks that the iteration
/// never came to are left out.
/// \throws std::invalid_argument  unless the trace has one row for each task that the rank runs.
std::vector<MeasuredTask> measured_tasks(StagePlan const& rank, RankTrace const& trace);

/// How long an iteration of a plan takes whose stages take measured times: its tasks one by one as
/// play() has them, messages at their cost. Stages that were not measured are like the nearest
/// measured one of their recompute policy that is neither the first nor the last. What a system
/// adds to each iteration is not in it.
///
/// \param stages  measured tasks by stage, of this plan or of one with another number of
///        microbatches: a few of them show a stage's steady state.
/// \throws std::invalid_argument  naming the stage, where a task of the plan was not measured.
SimTime compose_iteration(CostedPlan const& costed,
                          std::map<StageId, std::vector<MeasuredTask>> const& stages);

}  // namespace stagecraft
