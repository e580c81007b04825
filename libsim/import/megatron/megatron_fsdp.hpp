#pragma once

#include "libsim/import/megatron/megatron_arguments.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Reads --use-megatron-fsdp and the flags that go with it: sharding and the type of main gradients.
/// To be called after the flags of the layout and of experts are read.
/// Source: NVIDIA/Megatron-LM at d98e8a64, megatron/training/arguments.py.
void read_megatron_fsdp(MegatronArguments& arguments, TrainingConfig& config);

}  // namespace stagecraft
