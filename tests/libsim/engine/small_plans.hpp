#pragma once

#include <string>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// A plan small enough to be replayed op by op, with the system that gives its costs.
struct SmallPlan {
  std::string text;  ///< the run file, for messages
  TrainingPlan plan;
  System system;
};

/// Every schedule with every recompute policy and every way to split a layer; the remaining choices
/// (deallocation, attention, tied embeddings, gradient overlap, ...) in pairs.
std::vector<std::string> small_runs();

SmallPlan make_small_plan(std::string const& run);

}  // namespace stagecraft
