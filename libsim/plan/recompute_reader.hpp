#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "libsim/config/config_node.hpp"
#include "libsim/model/recompute_policy.hpp"

namespace stagecraft {

/// Reads section `recompute`: a word, a map, or `{per_stage: [...]}` with a word or map a stage.
/// One policy comes back for all stages, or one a stage; whether they fit the layout is not checked
/// here.
std::vector<RecomputePolicy> read_recompute(ConfigNode const& section);

/// The section as read_recompute() reads it: the keys that a policy uses, defaults included.
nlohmann::ordered_json to_json(std::vector<RecomputePolicy> const& policies);

}  // namespace stagecraft
