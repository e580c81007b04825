#pragma once

#include "libsim/config/config_node.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Reports a layout that leaves layers without a stage: part of check_training_config().
void check_layout(TrainingConfig const& config, ConfigNode const& root);

}  // namespace stagecraft
