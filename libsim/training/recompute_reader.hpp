#pragma once

#include <vector>

#include "libsim/config/config_node.hpp"
#include "libsim/model/recompute_policy.hpp"

namespace stagecraft {

/// Reads section `recompute`: a word, a map, or `{per_stage: [...]}` with a word or map per stage.
/// Returns one policy for all stages, or one per stage. Does not check whether they fit the layout.
std::vector<RecomputePolicy> read_recompute(ConfigNode const& section);

}  // namespace stagecraft
