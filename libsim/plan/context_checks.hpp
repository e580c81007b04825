#pragma once

#include "libsim/config/config_node.hpp"
#include "libsim/plan/training_config.hpp"

namespace stagecraft {

/// Reports what does not fit the ranks that split a sequence, and what is not built for them yet.
void check_context(TrainingConfig const& config, ConfigNode const& root);

}  // namespace stagecraft
