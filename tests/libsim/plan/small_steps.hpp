#pragma once

#include <vector>

#include "libsim/plan/training_plan.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft {

/// Four small layers on some stages.
inline TrainingConfig small_run(int pipeline = 1) {
  TrainingConfig config;
  config.model = gpt(4, 64, 4, 32, 1000);
  config.parallel.pipeline = pipeline;
  config.batch.global = 64;
  return config;
}

/// A first stage of four layers of h = 2048 with an embedding of 64 M elements: over Megatron's
/// bucket limit of 40 M elements, as is any layer (50 M).
inline TrainingConfig large_first_stage() {
  TrainingConfig config = small_run(2);
  config.model = gpt(8, 2048, 16, 32, 32000);
  config.parallel.data = 2;
  config.parallel.overlap_gradients = true;
  return config;
}

/// The collectives of a step.
inline std::vector<Op> collectives(StagePlan const& rank) {
  std::vector<Op> found;
  for (Op const& op : rank.step_ops) {
    if (is_collective(op.kind)) found.push_back(op);
  }
  return found;
}

}  // namespace stagecraft
