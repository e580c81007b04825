#include <algorithm>
#include <array>
#include <utility>

#include "libsim/import/frameworks/accelerate_keys.hpp"
#include "libsim/import/frameworks/framework_batch.hpp"
#include "libsim/import/frameworks/framework_import.hpp"
#include "libsim/import/frameworks/zero_stage.hpp"

namespace stagecraft {
namespace {

/// What ranks do beside data parallelism.
struct AccelerateLayout {
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  std::int64_t pipeline = 1;
};

std::int64_t count_or(FrameworkKeys& keys, std::string_view key, std::int64_t otherwise) {
  return keys.count(key, 1).value_or(otherwise);
}

/// The type in which units gather and reduce: FullyShardedDataParallelPlugin.set_mixed_precision.
std::string read_accelerate_precision(FrameworkKeys& keys) {
  constexpr std::string_view key = "mixed_precision";
  std::string word = keys.text(key).value_or("no");
  if (word == "fp8") {
    keys.leave_out(key, OmittedEffect::large, "less time", "bf16 is modelled");
    return "bf16";
  }
  if (word == "bf16" || word == "fp16") return word;
  if (word != "no" && word != "fp32") keys.find(key)->report("no, fp16, bf16, fp8");
  return "fp32";
}

/// The strategy of FSDP1, by its name or by its number in torch.distributed.fsdp.ShardingStrategy.
std::string read_strategy(FrameworkKeys& keys) {
  constexpr std::array<std::string_view, 5> names{"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD",
                                                  "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"};
  std::string_view const key = keys.has("fsdp_config.fsdp_sharding_strategy")
                                   ? "fsdp_config.fsdp_sharding_strategy"
                                   : "fsdp_config.fsdp_reshard_after_forward";
  std::string const word = keys.text(key).value_or("FULL_SHARD");
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (word == names[i] || word == std::to_string(i + 1)) return std::string{names[i]};
  }
  keys.find(key)->report("FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, HYBRID_SHARD_ZERO2");
  return "FULL_SHARD";
}

void read_wrapping(FrameworkKeys& keys) {
  constexpr std::string_view key = "fsdp_config.fsdp_auto_wrap_policy";
  std::string const policy = keys.text(key).value_or("NO_WRAP");
  if (policy == "TRANSFORMER_BASED_WRAP") return;
  std::string const consequence = "a unit for each layer is modelled";
  if (!keys.has(key)) {
    keys.note("no fsdp_auto_wrap_policy: Accelerate makes the whole model one unit; " +
              consequence);
  } else {
    bool const is_one = policy == "NO_WRAP";
    keys.leave_out(key, OmittedEffect::large, is_one ? "more memory" : "either way", consequence);
  }
}

void read_prefetch(FrameworkKeys& keys) {
  // Accelerate before 0.24 had another name.
  std::string_view const key = keys.has("fsdp_config.fsdp_backward_prefetch_policy")
                                   ? "fsdp_config.fsdp_backward_prefetch_policy"
                                   : "fsdp_config.fsdp_backward_prefetch";
  std::string const word = keys.text(key).value_or("NO_PREFETCH");
  if (word == "BACKWARD_PRE" || word == "1") return;
  if (keys.has(key)) {
    keys.leave_out(key, OmittedEffect::large, "more time", "BACKWARD_PRE is modelled");
  } else {
    keys.note(
        "no fsdp_backward_prefetch: Accelerate prefetches nothing then; BACKWARD_PRE is modelled");
  }
}

/// \return the ranks of a node: those of HYBRID_SHARD share parameters.
std::int64_t ranks_of_node(FrameworkKeys& keys, std::int64_t ranks) {
  return ranks / std::max<std::int64_t>(1, count_or(keys, "num_machines", 1));
}

void read_fsdp(FrameworkKeys& keys,
               FrameworkOptions const& options,
               std::string const& precision,
               std::int64_t shards,
               FrameworkRun& run) {
  std::int64_t const version = count_or(keys, "fsdp_config.fsdp_version", 1);
  if (version > 2) keys.find("fsdp_config.fsdp_version")->report("1, 2");
  nlohmann::ordered_json sharding;
  if (version == 2) {
    sharding["kind"] = "fsdp2";
    constexpr std::string_view key = "fsdp_config.fsdp_reshard_after_forward";
    sharding["reshard_after_forward"] = !keys.has(key) || keys.is_true(key);
    keys.text("fsdp_config.fsdp_backward_prefetch");  // FSDP2 ignores it
  } else {
    std::string const strategy = read_strategy(keys);
    read_prefetch(keys);
    if (strategy == "NO_SHARD") {
      run.sections["sharding"] = "none";
      return;
    }
    sharding["kind"] = "fsdp1";
    bool const keeps = strategy == "SHARD_GRAD_OP" || strategy == "HYBRID_SHARD_ZERO2";
    if (keeps) sharding["reshard_after_forward"] = false;
    if (strategy.starts_with("HYBRID")) {
      sharding["group"] = ranks_of_node(keys, options.world_size.value_or(1));
    }
  }
  if (shards > 0) sharding["group"] = shards;
  if (precision != "fp32") sharding["reduce_dtype"] = precision;
  run.sections["sharding"] = sharding;
  read_wrapping(keys);
  if (keys.is_true("fsdp_config.fsdp_activation_checkpointing")) {
    run.sections["recompute"] = {{"granularity", "full"}, {"early_stop", true}};
  }
  if (keys.is_true("fsdp_config.fsdp_offload_params")) {
    leave_out_offloaded_parameters(keys, "fsdp_config.fsdp_offload_params");
  }
}

/// The keys of DeepSpeed that Accelerate has of its own.
void read_deepspeed_section(FrameworkKeys& keys,
                            FrameworkOptions const& options,
                            FrameworkRun& run) {
  if (keys.has("deepspeed_config.deepspeed_config_file")) {
    keys.find("deepspeed_config.deepspeed_config_file")
        ->report("no such key: stagecraft import deepspeed FILE reads what the file says");
    return;
  }
  constexpr std::string_view stage_key = "deepspeed_config.zero_stage";
  constexpr std::string_view optimizer_key = "deepspeed_config.offload_optimizer_device";
  constexpr std::string_view parameters_key = "deepspeed_config.offload_param_device";
  std::int64_t const stage = keys.count(stage_key, 0).value_or(2);
  write_zero_stage(keys, stage_key, stage, run);
  bool const moves_optimizer = keys.text(optimizer_key).value_or("none") != "none";
  if (moves_optimizer && stage > 0) offload_optimizer(keys, optimizer_key, options, run);
  bool const moves_parameters = keys.text(parameters_key).value_or("none") != "none";
  if (moves_parameters && stage == 3) leave_out_offloaded_parameters(keys, parameters_key);
}

void read_megatron_section(FrameworkKeys& keys, FrameworkRun& run) {
  bool const shares = keys.is_true("megatron_lm_config.megatron_lm_use_distributed_optimizer");
  run.sections["sharding"] = shares ? "distributed_optimizer" : "none";
  if (keys.is_true("megatron_lm_config.megatron_lm_recompute_activations")) {
    run.sections["recompute"] = "selective";
  }
  run.software = "megatron-core";
}

AccelerateLayout read_accelerate_layout(FrameworkKeys& keys, bool is_megatron) {
  if (is_megatron) {
    return {.tensor = count_or(keys, "megatron_lm_config.megatron_lm_tp_degree", 1),
            .context = count_or(keys, "megatron_lm_config.megatron_lm_context_parallel_size", 1),
            .pipeline = count_or(keys, "megatron_lm_config.megatron_lm_pp_degree", 1)};
  }
  return {.tensor = count_or(keys, "parallelism_config.parallelism_config_tp_size", 1),
          .context = count_or(keys, "parallelism_config.parallelism_config_cp_size", 1) *
                     count_or(keys, "parallelism_config.parallelism_config_sp_size", 1)};
}

void write_accelerate_layout(FrameworkKeys& keys,
                             AccelerateLayout const& layout,
                             std::int64_t replicas,
                             bool is_megatron,
                             FrameworkRun& run) {
  nlohmann::ordered_json parallel;
  if (layout.tensor > 1) {
    parallel["tensor"] = layout.tensor;
    bool const is_split =
        is_megatron && keys.is_true("megatron_lm_config.megatron_lm_sequence_parallelism");
    if (is_split) parallel["sequence"] = true;
  }
  if (layout.context > 1) {
    parallel["context"] = layout.context;
    constexpr std::string_view key = "parallelism_config.parallelism_config_cp_comm_strategy";
    bool const is_ulysses = count_or(keys, "parallelism_config.parallelism_config_sp_size", 1) > 1;
    if (is_ulysses) {
      parallel["context_method"] = "ulysses";
    } else if (!is_megatron && keys.text(key).value_or("allgather") == "allgather") {
      parallel["context_method"] = "all_gather";
    }
  }
  if (layout.pipeline > 1) parallel["pipeline"] = layout.pipeline;
  parallel["data"] = replicas;
  run.sections["parallel"] = parallel;
}

void read_accelerate_batches(FrameworkKeys& keys,
                             FrameworkOptions const& options,
                             std::int64_t replicas,
                             FrameworkRun& run) {
  std::string_view const key = keys.has("megatron_lm_config.megatron_lm_num_micro_batches")
                                   ? "megatron_lm_config.megatron_lm_num_micro_batches"
                                   : "deepspeed_config.gradient_accumulation_steps";
  if (!options.micro_batch) {
    keys.report("batch of a rank", "--micro-batch N: the file does not say it");
    return;
  }
  if (!keys.has(key) && !options.accumulation) {
    keys.note("the file does not say how many microbatches are accumulated: 1 (--accumulation N)");
  }
  bool const is_auto = keys.is_auto(key);
  std::int64_t const written = is_auto ? 1 : count_or(keys, key, 1);
  write_batch(run, *options.micro_batch, options.accumulation.value_or(written), replicas);
}

void read_accelerate(FrameworkKeys& keys, FrameworkOptions const& given, FrameworkRun& run) {
  FrameworkOptions options = given;
  auto const processes = keys.count("num_processes", 1);
  if (!options.world_size) options.world_size = processes;
  bool const is_compiled = keys.text("dynamo_config.dynamo_backend").value_or("NO") == "INDUCTOR";
  run.software = is_compiled ? "torchtitan" : "fsdp1";

  std::string const type = keys.text("distributed_type").value_or("NO");
  constexpr std::array<std::string_view, 5> types{"FSDP", "DEEPSPEED", "MULTI_GPU", "MEGATRON_LM",
                                                  "NO"};
  if (std::ranges::find(types, type) == types.end()) {
    keys.report("distributed_type", "FSDP, DEEPSPEED, MULTI_GPU, MEGATRON_LM, NO");
    return;
  }
  bool const is_megatron = type == "MEGATRON_LM";
  std::string const precision = read_accelerate_precision(keys);
  run.model["precision"] = precision;
  AccelerateLayout const layout = read_accelerate_layout(keys, is_megatron);
  auto const replicas = replicas_of(keys, "num_processes", options.world_size,
                                    layout.tensor * layout.context * layout.pipeline);
  if (!replicas) return;
  write_accelerate_layout(keys, layout, *replicas, is_megatron, run);
  read_accelerate_batches(keys, options, *replicas, run);
  if (type == "FSDP") {
    bool const is_hybrid =
        count_or(keys, "parallelism_config.parallelism_config_dp_replicate_size", 1) > 1;
    std::int64_t const shards =
        count_or(keys, "parallelism_config.parallelism_config_dp_shard_size", 1) * layout.context;
    read_fsdp(keys, options, precision, is_hybrid ? shards : 0, run);
  } else if (type == "DEEPSPEED") {
    if (!is_compiled) run.software = "deepspeed";
    read_deepspeed_section(keys, options, run);
  } else if (is_megatron) {
    read_megatron_section(keys, run);
  } else {
    run.sections["sharding"] = "none";
  }
  if (!is_megatron) {
    keys.note("the kernels are the model's and not in the file: as in stack " + run.software);
  }
}

}  // namespace

Framework const accelerate_framework{.name = "accelerate",
                                     .title = "Accelerate",
                                     .file = "a YAML map with Accelerate's keys",
                                     .syntax = FileSyntax::yaml,
                                     .unread = unread_accelerate_keys,
                                     .read = read_accelerate};

}  // namespace stagecraft
