#pragma once

#include <cstdint>
#include <optional>

#include "libsim/import/megatron/megatron_arguments.hpp"
#include "libsim/import/megatron/megatron_version.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Reads parallelism, schedule, layout and batch. Problems go to the arguments' diagnostics.
/// Pre: the model has been read.
void read_megatron_layout(MegatronArguments& arguments,
                          MegatronVersion version,
                          std::optional<std::int64_t> world_size,
                          TrainingConfig& config);

}  // namespace stagecraft
