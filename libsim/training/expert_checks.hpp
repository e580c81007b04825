#pragma once

#include "libsim/config/config_node.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Reports settings that a model with experts cannot be combined with, and expert parallelism
/// without experts.
void check_experts(TrainingConfig const& config, ConfigNode const& root);

}  // namespace stagecraft
