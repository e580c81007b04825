#pragma once

#include <nlohmann/json.hpp>

#include "libsim/config/config_node.hpp"
#include "libsim/model/model_config.hpp"

namespace stagecraft {

/// Reads section `model`, fills in the defaults that depend on other keys, and checks what can be
/// checked without other sections. Problems go to the node's diagnostics; fields that could not be
/// read keep 0 or their default.
ModelConfig read_model_config(ConfigNode const& section);

/// The inverse of read_model_config(): every key, defaults included.
nlohmann::ordered_json to_json(ModelConfig const& model);

}  // namespace stagecraft
