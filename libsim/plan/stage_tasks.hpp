#pragma once

#include <algorithm>

#include "libsim/plan/stage_order.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The window of the paper's appendix C: most forwards that a stage has outstanding, the warm-up's
/// and one more. Pre: `shape` is legal, its group filled in.
inline int store_window(ScheduleShape const& shape, int stage) {
  return std::min(warmup_forwards(shape, stage) + 1, shape.microbatches * shape.chunks);
}

/// Appends the microbatches of an iteration to a stage's program, as its schedule has them: gives
/// each run the task of its chunk's program, and cuts the last backward of a chunk into pieces if
/// gradients are reduced between them. A task is appended to StagePlan::tasks when it is first
/// used.
///
/// A window of stored microbatches has a period of its own on every stage: the stages of such a
/// plan are written down without repeats.
/// Pre: the plan's chunks and blocks are set, and the stage's chunks.
void append_microbatches(StagePlan& stage,
                         TrainingPlan const& plan,
                         PipelineSchedule const& schedule);

}  // namespace stagecraft
