#pragma once

#include <vector>

#include "libsim/import/megatron_arguments.hpp"
#include "libsim/import/megatron_import.hpp"
#include "libsim/plan/training_config.hpp"

namespace stagecraft {

// Each function reads one section of a run from the flags. Problems go to the arguments'
// diagnostics.

void read_megatron_model(MegatronArguments& arguments, MegatronVersion version, ModelConfig& model);

/// Reads parallelism, schedule, layout and batch. Pre: the model has been read.
void read_megatron_layout(MegatronArguments& arguments,
                          MegatronVersion version,
                          std::optional<std::int64_t> world_size,
                          TrainingConfig& config);

std::vector<RecomputePolicy> read_megatron_recompute(MegatronArguments& arguments);

/// Uses Megatron's own defaults for flags that are left out.
Hyperparameters read_megatron_training(MegatronArguments& arguments);

}  // namespace stagecraft
