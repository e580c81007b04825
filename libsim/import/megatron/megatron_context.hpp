#pragma once

#include <cstdint>

#include "libsim/import/megatron/megatron_arguments.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Reads how sequences are split: --context-parallel-size with --cp-comm-type, or Megatron-DeepSpeed's
/// --ds-sequence-parallel-size. Returns the number of ranks that split each, also if the model's
/// sequences are not split here: that is refused, or noted if it is ignored.
/// Pre: the model is read. Source: megatron/training/arguments.py (names, defaults).
std::int64_t read_megatron_context(MegatronArguments& arguments, TrainingConfig& config);

}  // namespace stagecraft
