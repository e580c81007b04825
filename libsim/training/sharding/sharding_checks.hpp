#pragma once

#include "libsim/config/config_node.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Reports what the run's sharding cannot be combined with, at its place.
void check_sharding(TrainingConfig const& config, ConfigNode const& root);

/// The same of what it offloads.
void check_offload(TrainingConfig const& config, ConfigNode const& root);

}  // namespace stagecraft
