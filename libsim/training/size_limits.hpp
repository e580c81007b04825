#pragma once

#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Upper estimates of the largest integers that occur in a plan of this configuration. They are
/// floating-point numbers, so that they cannot overflow themselves.
struct PlanSizes {
  double ranks = 0;         ///< tensor * context * data * pipeline
  double chunk_passes = 0;  ///< forward passes of all stages and chunks over all microbatches
  double bytes = 0;         ///< parameters, optimizer state and all activations of one replica
  double flops = 0;         ///< one chunk on one rank: forward, backward and recompute
};

/// The limits that integer arithmetic on plans relies on. Counts of bytes and FLOPs stay below
/// 2^62, so that the sum of two fits 63 bits; ranks and passes stay below what fits in memory, and
/// passes below what make_pipeline_schedule() takes.
inline constexpr PlanSizes plan_limits{
    .ranks = 1 << 24, .chunk_passes = max_scheduled_forwards, .bytes = 0x1p62, .flops = 0x1p62};

/// Pre: every number of `config` is within the bounds of its key and positive.
PlanSizes plan_sizes(TrainingConfig const& config);

}  // namespace stagecraft
