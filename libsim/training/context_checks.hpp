#pragma once

#include "libsim/config/config_node.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Whether context parallelism is built for models of this kind.
bool can_split_sequences(ModelConfig const& model);

/// Reports settings that do not fit the ranks that split a sequence, or that are not built for them
/// yet.
void check_context(TrainingConfig const& config, ConfigNode const& root);

}  // namespace stagecraft
