#pragma once

#include <string>
#include <vector>

#include "libsim/explain/change.hpp"
#include "libsim/plan/training_config.hpp"

namespace stagecraft {

/// Changes of section `recompute`: one policy for all stages, each of those that an explanation
/// tries; and where stages have several policies, less recompute on the stages of one of them.
/// Policies that the run has already are among them.
std::vector<Change> recompute_changes(TrainingConfig const& config);

/// A policy in words, e.g. "selective recompute (core_attention)".
std::string policy_text(RecomputePolicy const& policy);

}  // namespace stagecraft
