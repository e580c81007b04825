#pragma once

#include <nlohmann/json.hpp>

#include "libsim/config/config_node.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Key `context_method`: a word, or the map of two levels, whose sizes multiply to layout.context.
void read_context_method(ConfigNode const& node, ParallelLayout& layout);
/// As read_context_method() reads it.
nlohmann::ordered_json context_method_json(ParallelLayout const& layout);

/// Whether context parallelism is built for models of this kind.
bool can_split_sequences(ModelConfig const& model);

/// Reports what does not fit the ranks that split a sequence, and what is not built for them yet.
void check_context(TrainingConfig const& config, ConfigNode const& root);

}  // namespace stagecraft
