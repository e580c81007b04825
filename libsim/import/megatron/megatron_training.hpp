#pragma once

#include <vector>

#include "libsim/import/megatron/megatron_arguments.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Reads the recompute policy. Problems go to the arguments' diagnostics, here and below.
std::vector<RecomputePolicy> read_megatron_recompute(MegatronArguments& arguments,
                                                     ModelConfig const& model);

/// Reads what the host has of activations.
ActivationOffload read_megatron_offload(MegatronArguments& arguments);

/// Uses Megatron's own defaults for flags that are left out.
Hyperparameters read_megatron_training(MegatronArguments& arguments);

}  // namespace stagecraft
