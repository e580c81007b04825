#pragma once

#include <cstdint>

#include "libsim/plan/training_plan.hpp"
#include "libsim/schedule/pipeline_schedule.hpp"

namespace stagecraft {

/// Which program of its chunk a microbatch runs. policy: that of the recompute policy; stored: the
/// one that stores all activations; early: the one that is recomputed ahead of its backward.
enum class TaskVariant : std::uint8_t { policy, stored, early };

/// The task that runs all blocks of a chunk's program of this variant.
Task whole_task(TrainingPlan const& plan,
                StagePlan const& stage,
                ChunkRun const& run,
                TaskVariant variant);

/// Appends the schedule's microbatches to a stage's program. Each run gets the task of its chunk's
/// program. The last backward of a chunk is cut into pieces if gradients are reduced between them.
/// A task is appended to StagePlan::tasks when it is first used.
///
/// A window of stored microbatches has a different period on every stage, so a plan with one has no
/// steady-state loop; each stage repeats its own windows (repeat_windows()).
/// Pre: the plan's chunks and blocks, and the stage's chunks, are set.
void append_microbatches(StagePlan& stage,
                         TrainingPlan const& plan,
                         PipelineSchedule const& schedule);

}  // namespace stagecraft
