#pragma once

#include "libsim/import/megatron/megatron_arguments.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Reads how many layers each virtual stage has, if a flag says so: Megatron-LM's layout and
/// counted embeddings, Megatron-DeepSpeed's --pp-partition-method, MindSpeed-LLM's --num-layer-list
/// and --noop-layers. Layers that do nothing are left out of the model.
/// Pre: the model's layers and the pipeline are read.
/// Source: NVIDIA/Megatron-LM, megatron/core/transformer/transformer_block.py; microsoft/DeepSpeed,
/// deepspeed/runtime/pipe/module.py, _partition_layers; Ascend/MindSpeed-LLM,
/// docs on dynamic and empty pipeline layers.
void read_megatron_stage_layers(MegatronArguments& arguments, TrainingConfig& config);

}  // namespace stagecraft
