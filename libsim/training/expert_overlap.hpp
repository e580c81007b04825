#pragma once

#include "libsim/config/config_node.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Whether some layer has shared experts, which all tokens pass.
bool has_shared_experts(ModelConfig const& model);

/// Replaces a schedule whose forwards and backwards are paired for the communication of experts
/// (`parallel.expert_overlap`) by its order: that of interleaved 1F1B or, on one stage, of 1F1B.
/// Any other schedule, and one for which there is no such order, stays as it is.
/// Source: Megatron-LM core/pipeline_parallel/combined_1f1b.py.
void settle_expert_overlap(TrainingConfig& config);

/// Reports settings that cannot be combined with `parallel.expert_overlap`, schedules that have no
/// pairs, and settings that cannot be combined with `parallel.shared_expert_overlap`.
/// Source: Megatron-LM training/arguments.py, overlap_moe_expert_parallel_comm.
void check_expert_overlap(TrainingConfig const& config, ConfigNode const& root);

}  // namespace stagecraft
