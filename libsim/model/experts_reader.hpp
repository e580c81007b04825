#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "libsim/config/config_node.hpp"
#include "libsim/model/experts_config.hpp"

namespace stagecraft {

/// Reads a key `experts`: a map, or `none`. A key that does not exist leaves `experts` as it is, and
/// so does each key that a map leaves out. Reports what a map says that no model can have.
void read_experts(ConfigNode const& node, std::optional<ExpertsConfig>& experts);

/// The inverse: a map with all keys, or "none".
nlohmann::ordered_json to_json(std::optional<ExpertsConfig> const& experts);

}  // namespace stagecraft
