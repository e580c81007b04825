#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libsim/explain/change.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Changes of section `recompute`: each policy that an explanation tries, on all stages; and, if
/// the stages have several policies, less recompute on the stages of one of them. The list includes
/// policies that the run already has.
std::vector<Change> recompute_changes(TrainingConfig const& config);

/// What the changes to other modules begin with; their short names follow.
inline constexpr std::string_view module_change = "recompute of ";

/// A policy in words, e.g. "selective recompute (core_attention)".
std::string policy_text(RecomputePolicy const& policy);

}  // namespace stagecraft
