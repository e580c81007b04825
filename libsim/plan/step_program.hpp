#pragma once

#include "libsim/plan/step_ranges.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Appends the ops before the first microbatch: zeroing the main gradients and counters.
void append_begin_of_step(StagePlan& stage, TrainingPlan const& plan);

/// Appends the reduction of a bucket's gradients over the replicas, on the data-parallel stream:
/// scaled by 1/d, then all-reduced, or reduce-scattered with the distributed optimizer. Buckets are
/// reduced from the last parameters to the first.
void append_gradient_reduction(StagePlan& stage,
                               TrainingPlan const& plan,
                               ParameterRange const& bucket);

/// Appends the ops after the last microbatch: the reduction of all gradients over the replicas
/// (unless it was overlapped), over tensor ranks and between the two holders of a tied embedding;
/// and the mixed-precision Adam step.
///
/// With `offload` the host takes the step of a part, on streams of its own, for which the device
/// waits before it narrows and gathers parameters.
///
/// Bytes per parameter with fp16: zero 4, scale 8, unscale 8, norm 4, clip 8, Adam 28, narrow 6.
/// Pre: `ranges` are those of the stage.
/// Source: Megatron-LM of May 2022, optimizer/optimizer.py and model/distributed.py.
void append_end_of_step(StagePlan& stage, TrainingPlan const& plan, StageRanges const& ranges);

}  // namespace stagecraft
