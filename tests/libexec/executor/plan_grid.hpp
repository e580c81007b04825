#pragma once

#include <string>
#include <vector>

#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// A configuration and what is special about it.
struct NamedRun {
  std::string name;
  TrainingConfig config;
};

/// Every layout and schedule with every recompute policy, in turn with every variant of the model
/// and every precision: more than a hundred small plans.
std::vector<NamedRun> plan_grid();

/// The ways of cutting `base` into ranks, each by its name.
std::vector<NamedRun> layouts_of(TrainingConfig const& base);
/// `base` with each schedule that splits the backward, lies in a V or holds two copies, by the
/// schedule's name.
std::vector<NamedRun> split_layouts_of(TrainingConfig const& base);

/// The recompute policies.
struct NamedPolicy {
  std::string name;
  RecomputePolicy policy;
};
std::vector<NamedPolicy> all_policies();

}  // namespace stagecraft
