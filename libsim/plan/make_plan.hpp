#pragma once

#include "libsim/plan/pipeline_schedule.hpp"
#include "libsim/plan/settled_config.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Lays out an iteration. Pre: `config` was checked by its reader.
/// \throws std::invalid_argument  for an illegal schedule shape.
TrainingPlan make_plan(SettledConfig const& config, RankChoice ranks = {});

/// The same plan for other ranks. Pre: make_plan() made it.
TrainingPlan plan_of_ranks(TrainingPlan const& plan, RankChoice ranks);

/// Gives a stage its tasks and its program.
/// Pre: `schedule` is the plan's, and `stage` is as make_programs() made it.
void lay_out_stage(TrainingPlan const& plan, PipelineSchedule const& schedule, StagePlan& stage);

}  // namespace stagecraft
