#include "libsim/launch/accelerate_files.hpp"

#include <string_view>

#include "libsim/launch/llama_gaps.hpp"
#include "libsim/launch/trainer_files.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/plan/units/unit_types.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

bool is_fsdp2(TrainingConfig const& config) { return config.sharding.kind == ShardingKind::fsdp2; }

bool keeps_after_forward(TrainingConfig const& config) {
  return config.sharding.reshard_after_forward.kind == Reshard::Kind::no;
}

/// HYBRID strategies share parameters among the ranks of a node, others among all.
std::string strategy_of(TrainingConfig const& config) {
  bool const keeps = keeps_after_forward(config);
  if (config.sharding.group != 0) return keeps ? "HYBRID_SHARD_ZERO2" : "HYBRID_SHARD";
  return keeps ? "SHARD_GRAD_OP" : "FULL_SHARD";
}

std::string yaml_bool(bool value) { return value ? "true" : "false"; }

/// A file for `accelerate launch --config_file`.
std::string fsdp_yaml(LaunchJob const& job) {
  TrainingConfig const& config = job.config;
  Sharding const& sharding = config.sharding;
  JobNodes const nodes = nodes_of(job);
  std::string text = commented(job.about) +
                     "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n"
                     "mixed_precision: " +
                     std::string{name_of(config.model.precision)} +
                     "\nnum_machines: " + std::to_string(nodes.nodes) +
                     "\nnum_processes: " + std::to_string(nodes.nodes * nodes.per_node) +
                     "\nfsdp_config:\n"
                     "  fsdp_version: " +
                     (is_fsdp2(config) ? "2" : "1") +
                     "\n"
                     "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                     "  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n"
                     "  fsdp_state_dict_type: SHARDED_STATE_DICT\n";
  if (is_fsdp2(config)) {
    text += "  fsdp_reshard_after_forward: " + yaml_bool(!keeps_after_forward(config)) + "\n";
  } else {
    text += "  fsdp_sharding_strategy: " + strategy_of(config) +
            "\n  fsdp_backward_prefetch: BACKWARD_PRE\n  fsdp_use_orig_params: true\n";
  }
  bool const recomputes = config.recompute.front().granularity == RecomputeGranularity::full;
  text += "  fsdp_activation_checkpointing: " + yaml_bool(recomputes) + "\n";
  if (is_fsdp2(config) && sharding.group != 0) {
    text += "parallelism_config:\n  parallelism_config_dp_shard_size: " +
            std::to_string(sharding.group) + "\n  parallelism_config_dp_replicate_size: " +
            std::to_string(config.parallel.data / sharding.group) + "\n";
  }
  return text;
}

}  // namespace

std::vector<LaunchFile> accelerate_files(LaunchJob const& job) {
  return {
      {"accelerate.sh", accelerate_script(job),
       "starts the job with Accelerate; run it on every node"},
      {"accelerate.yaml", fsdp_yaml(job), "the configuration of Accelerate"},
      {"train.py", train_py(job, false), "a training program, with the Trainer of transformers"}};
}

std::string accelerate_layout_flags(TrainingConfig const& config) {
  std::string flags = std::string{"--use_fsdp --fsdp_version "} + (is_fsdp2(config) ? "2" : "1");
  flags += is_fsdp2(config)
               ? " --fsdp_reshard_after_forward " + yaml_bool(!keeps_after_forward(config))
               : " --fsdp_sharding_strategy " + strategy_of(config);
  return flags + " --mixed_precision " + std::string{name_of(config.model.precision)} +
         " --gradient_accumulation_steps " + std::to_string(microbatches(config));
}

std::vector<std::string> accelerate_gaps(TrainingConfig const& config, int node) {
  std::vector<std::string> gaps = accelerate_gaps_of_model(config);
  auto const gap = [&](bool is_there, std::string_view text) {
    if (is_there) gaps.emplace_back(text);
  };
  for (std::string const& text : trainer_gaps(config)) gaps.push_back(text);
  ParallelLayout const& layout = config.parallel;
  gap(layout.tensor > 1 || layout.context > 1 || layout.pipeline > 1,
      "parallel.tensor, context, pipeline: not written for Accelerate");
  Sharding const& sharding = config.sharding;
  if (sharding.traits().framework != ShardingFramework::pytorch) {
    gap(true, "sharding: Accelerate's are fsdp1 and fsdp2 here");
    return gaps;
  }
  int const sharers = nodes_of(layout, node).per_node;
  gap(!is_fsdp2(config) && sharding.group != 0 && sharding.group != sharers,
      "sharding.group: fsdp1's HYBRID strategies share parameters among the ranks of a node (" +
          std::to_string(sharers) + ")");
  // FullyShardedDataParallelPlugin.set_mixed_precision gives parameters and reductions one type.
  UnitTypes const types = unit_types(config);
  gap(types.reduced != types.gathered,
      "sharding.reduce_dtype: Accelerate reduces in the model's type (--set "
      "sharding.reduce_dtype=bf16)");
  gap(sharding.stored_dtype != UnitType::automatic, "sharding.stored_dtype: Accelerate's is fp32");
  gap(sharding.sync == UnitSync::every && microbatches(config) > 1,
      "sharding.sync every: the Trainer reduces in the last microbatch");
  gap(!sharding.reshard_after_backward || sharding.prefetch != Prefetch{},
      "sharding.reshard_after_backward, prefetch: Accelerate has PyTorch's own");
  using Kind = Reshard::Kind;
  Kind const after = sharding.reshard_after_forward.kind;
  gap(is_fsdp2(config) && after != Kind::no && after != Kind::yes,
      "sharding.reshard_after_forward: true or false holds for all units of Accelerate's fsdp2");
  gap(!is_fsdp2(config) && after != Kind::no && after != Kind::automatic,
      "sharding.reshard_after_forward: the strategies of fsdp1 are auto and false");
  return gaps;
}

std::vector<std::string> accelerate_gaps_of_model(TrainingConfig const& config) {
  return llama_gaps(
      config.model,
      {.owner = "transformers", .may_tie = true, .has_head_dim = true, .has_half = true});
}

}  // namespace stagecraft
