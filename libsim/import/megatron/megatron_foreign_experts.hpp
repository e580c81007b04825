#pragma once

#include <cstdint>
#include <vector>

#include "libsim/import/megatron/megatron_arguments.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The program whose experts a command line means. Megatron-DeepSpeed's and megablocks' flags have
/// other names and other defaults than Megatron-Core's.
enum class ExpertProgram : std::uint8_t { megatron, deepspeed, megablocks };

/// --deepspeed or a flag of DeepSpeed's experts alone, or a flag of megablocks alone, tells.
ExpertProgram expert_program(MegatronArguments const& arguments);

/// --num-experts: DeepSpeed's may have a number for each sparse layer, of which the largest counts.
/// 0 without the flag.
std::int64_t expert_count(MegatronArguments& arguments);

/// Which layers are sparse by --expert-interval: the last of every two, without it.
/// Source: Megatron-DeepSpeed, megatron/model/transformer.py, get_num_experts_per_layer.
std::vector<bool> layers_of_interval(MegatronArguments& arguments, std::int64_t layers);

/// Gives experts of DeepSpeed or megablocks, and their routing and ranks, what differs from
/// Megatron-Core. Pre: what Megatron-Core's flags say is read; the program is not megatron.
/// Source: DeepSpeed, deepspeed/moe/layer.py and sharded_moe.py; Megatron-DeepSpeed,
/// megatron/arguments.py; databricks/megablocks, megablocks/layers/mpu.py and router.py;
/// stanford-futuredata/Megatron-LM, megatron/arguments.py.
void read_foreign_experts(MegatronArguments& arguments,
                          ExpertProgram program,
                          TrainingConfig& config,
                          ExpertsConfig& experts);

}  // namespace stagecraft
