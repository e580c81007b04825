#pragma once

#include <optional>
#include <string>

#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// A note on a run with more tensor ranks than key and value heads: several ranks hold the same
/// head. Megatron-Core refuses this up to 0.15 ("num_query_groups must be a multiple of
/// tensor_model_parallel_size"); later versions gather the products' outputs
/// (megatron/core/transformer/attention.py). nullopt for other runs.
std::optional<std::string> repeated_heads_text(TrainingConfig const& config);

}  // namespace stagecraft
