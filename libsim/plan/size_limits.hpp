#pragma once

#include "libsim/plan/training_config.hpp"

namespace stagecraft {

/// Upper estimates of the largest whole numbers that a plan of this configuration leads to. In
/// floating point, so that they cannot overflow themselves; what computes with integers relies on
/// the limits.
struct PlanSizes {
  double ranks = 0;         ///< tensor * pipeline * data
  double chunk_passes = 0;  ///< forward passes of all stages and chunks over all microbatches
  double bytes = 0;         ///< parameters, optimizer state and all activations of one replica
  double flops = 0;         ///< of one chunk of one rank, forward, backward and recompute
};

/// Every count of bytes or FLOPs stays below 2^62, so that sums of two stay within 63 bits; ranks
/// and passes stay below what a plan can hold in memory.
inline constexpr PlanSizes plan_limits{
    .ranks = 1 << 24, .chunk_passes = 1 << 24, .bytes = 0x1p62, .flops = 0x1p62};

/// Pre: every number of `config` is within the bounds of its key and positive.
PlanSizes plan_sizes(TrainingConfig const& config);

}  // namespace stagecraft
