#pragma once

#include <vector>

#include "libsim/explain/change_effect.hpp"

namespace stagecraft {

/// Simulates every two of the changes that are legal and set different keys, together, on `jobs`
/// threads. Returns those that do something that neither of the two does alone.
std::vector<ChangeEffect> simulate_pairs(RunConfig const& run,
                                         std::vector<ChangeEffect> const& singles,
                                         int jobs,
                                         TrialProgress const& progress);

}  // namespace stagecraft
