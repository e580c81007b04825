#include <algorithm>
#include <cctype>

#include "libsim/import/frameworks/deepspeed_keys.hpp"
#include "libsim/import/frameworks/framework_batch.hpp"
#include "libsim/import/frameworks/framework_import.hpp"
#include "libsim/import/frameworks/zero_stage.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view zero = "zero_optimization";

std::string zero_key(std::string_view name) { return std::string{zero} + "." + std::string{name}; }

/// A batch size of the file. If the file says `auto`, the Trainer of transformers sets it: `given`.
std::optional<std::int64_t> read_batch(FrameworkKeys& keys,
                                       std::string_view key,
                                       std::optional<std::int64_t> given) {
  if (given || keys.is_auto(key)) {
    keys.has(key);
    return given;
  }
  return keys.count(key, 1);
}

/// Two of the three sizes of a batch give the third: runtime/config.py,
/// _set_batch_related_parameters.
void read_deepspeed_batches(FrameworkKeys& keys,
                            FrameworkOptions const& options,
                            std::int64_t replicas,
                            FrameworkRun& run) {
  constexpr std::string_view global_key = "train_batch_size";
  constexpr std::string_view micro_key = "train_micro_batch_size_per_gpu";
  constexpr std::string_view accumulation_key = "gradient_accumulation_steps";
  auto const global = read_batch(keys, global_key, std::nullopt);
  auto micro = read_batch(keys, micro_key, options.micro_batch);
  auto accumulation = read_batch(keys, accumulation_key, options.accumulation);
  if (!global && !micro) {
    keys.report(micro_key, "a whole number, or --micro-batch N");
    return;
  }
  if (global && micro && !accumulation) accumulation = *global / (*micro * replicas);
  if (global && !micro) micro = *global / (replicas * accumulation.value_or(1));
  std::int64_t const steps = accumulation.value_or(1);
  if (global && (*micro < 1 || steps < 1 || *global != *micro * steps * replicas)) {
    keys.report(global_key, std::to_string(*micro) + " x " + std::to_string(steps) + " x " +
                                std::to_string(replicas) + ": microbatch, accumulation, replicas");
    return;
  }
  if (keys.is_auto(accumulation_key) && !options.accumulation) {
    keys.note("gradient_accumulation_steps is the Trainer's: 1 is assumed (--accumulation N)");
  }
  write_batch(run, *micro, steps, replicas);
}

void read_deepspeed_precision(FrameworkKeys& keys, FrameworkRun& run) {
  std::string_view word = "fp32";
  for (auto const& [key, precision] :
       {std::pair{"bf16.enabled", "bf16"}, std::pair{"bfloat16.enabled", "bf16"},
        std::pair{"fp16.enabled", "fp16"}}) {
    if (keys.is_auto(key)) {
      if (word == "fp32") word = precision;
      keys.note(std::string{key} + " is the Trainer's: true is assumed");
    } else if (keys.is_true(key)) {
      if (word != "fp32" && word != precision) keys.report(key, "false beside bf16.enabled");
      word = precision;
    }
  }
  run.model["precision"] = word;
}

/// The key that puts the section's tensors on the host, or the key of 2020 for the same; empty if
/// neither does.
std::string key_of_host(FrameworkKeys& keys, std::string_view section, std::string_view old_key) {
  std::string key = zero_key(section) + ".device";
  std::string const device = keys.text(key).value_or("none");
  if (device != "none" && device != "cpu" && device != "nvme") {
    keys.find(key)->report("none, cpu, nvme");
  }
  if (device != "none") return key;
  return keys.is_true(zero_key(old_key)) ? zero_key(old_key) : "";
}

void read_offload(FrameworkKeys& keys,
                  FrameworkOptions const& options,
                  std::int64_t stage,
                  FrameworkRun& run) {
  std::string const ratio = zero_key("offload_optimizer.ratio");
  double const share = keys.number(ratio, {0, 1, true}).value_or(1);
  if (share < 1 && stage != 3) keys.find(ratio)->report("1, or stage 3");
  std::string const optimizer = key_of_host(keys, "offload_optimizer", "cpu_offload");
  if (!optimizer.empty() && stage > 0) offload_optimizer(keys, optimizer, options, run);
  std::string const parameters = key_of_host(keys, "offload_param", "cpu_offload_param");
  if (parameters.empty()) return;
  if (stage == 3) {
    leave_out_offloaded_parameters(keys, parameters);
  } else {
    keys.note("parameters stay on the device, because DeepSpeed offloads them in stage 3 alone");
  }
}

void read_deepspeed_optimizer(FrameworkKeys& keys) {
  constexpr std::string_view key = "optimizer.type";
  std::string type = keys.text(key).value_or("adamw");
  std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::tolower(c); });
  if (type == "adam" || type == "adamw") return;
  keys.leave_out(key, OmittedEffect::large, "either way", "Adam is modelled");
}

std::int64_t read_stage(FrameworkKeys& keys) {
  // The form of 2020: "zero_optimization": true.
  auto const whole = keys.find(zero);
  if (whole && !whole->is_map()) return whole->boolean().value_or(false) ? 1 : 0;
  return keys.count(zero_key("stage"), 0).value_or(0);
}

/// The type of reductions; DeepSpeed's own is that of the gradients.
void read_communication(FrameworkKeys& keys, FrameworkRun& run) {
  constexpr std::string_view key = "communication_data_type";
  std::string type = run.model["precision"];
  if (auto const written = keys.text(key)) {
    if (*written == "fp16" || *written == "bf16" || *written == "fp32") {
      type = *written;
    } else {
      keys.find(key)->report("fp16, bf16, fp32");
    }
  }
  nlohmann::ordered_json& sharding = run.sections["sharding"];
  if (sharding.is_object()) {
    sharding["reduce_dtype"] = type;
  } else if (sharding_traits(run).has_model_gradients && type != run.model["precision"] &&
             keys.has(key)) {
    keys.leave_out(key, OmittedEffect::large, "more time", "reductions in the gradients' type");
  }
}

/// What stages 2 and 3 collect gradients in, and how long stage 3 keeps parameters.
void read_buffers(FrameworkKeys& keys,
                  FrameworkOptions const& options,
                  std::int64_t stage,
                  FrameworkRun& run) {
  if (stage != 2 && stage != 3) return;
  nlohmann::ordered_json& sharding = run.sections["sharding"];
  std::string const bucket = zero_key("reduce_bucket_size");
  if (keys.is_auto(bucket)) {
    // transformers, integrations/deepspeed.py, trainer_config_finalize().
    std::int64_t const hidden = model_of(run, options).hidden;
    sharding["bucket"] = hidden * hidden;
  } else if (auto const elements = keys.count(bucket, 0)) {
    sharding["bucket"] = *elements;
  }
  std::string const contiguous = zero_key("contiguous_gradients");
  if (keys.has(contiguous) && !keys.is_true(contiguous)) sharding["bucket"] = 0;
  std::string const overlap = zero_key("overlap_comm");
  if (keys.has(overlap)) sharding["overlap"] = keys.is_true(overlap);
  if (stage == 2) return;
  if (auto const elements = keys.count(zero_key("stage3_max_reuse_distance"), 0)) {
    sharding["reuse_distance"] = *elements;
  }
}

void read_deepspeed_sharding(FrameworkKeys& keys,
                             FrameworkOptions const& options,
                             FrameworkRun& run) {
  std::int64_t const stage = read_stage(keys);
  write_zero_stage(keys, zero_key("stage"), stage, run);
  auto const shards = keys.count(zero_key("mics_shard_size"), -1);
  if (shards && *shards > 0 && stage == 3) run.sections["sharding"]["group"] = *shards;
  read_communication(keys, run);
  read_buffers(keys, options, stage, run);
  read_offload(keys, options, stage, run);
}

void read_deepspeed(FrameworkKeys& keys, FrameworkOptions const& options, FrameworkRun& run) {
  run.software = "deepspeed";
  keys.note("the kernels are the model's and not in the file: as in stack deepspeed");
  keys.note("recompute is the model's and not in the file: none is assumed (--set recompute=full)");
  read_deepspeed_precision(keys, run);
  read_deepspeed_optimizer(keys);
  std::int64_t const tensor = keys.is_auto("tensor_parallel.autotp_size")
                                  ? 1
                                  : keys.count("tensor_parallel.autotp_size", 0).value_or(1);
  std::int64_t const sequence = keys.count("sequence_parallel_size", 1).value_or(1);
  auto const replicas = replicas_of(keys, "world size", options.world_size,
                                    std::max<std::int64_t>(tensor, 1) * sequence);
  if (!replicas) return;
  nlohmann::ordered_json parallel;
  if (tensor > 1) parallel["tensor"] = tensor;
  if (sequence > 1) {
    parallel["context"] = sequence;
    parallel["context_method"] = "ulysses";
  }
  parallel["data"] = *replicas;
  run.sections["parallel"] = parallel;
  read_deepspeed_batches(keys, options, *replicas, run);
  read_deepspeed_sharding(keys, options, run);
}

}  // namespace

Framework const deepspeed_framework{.name = "deepspeed",
                                    .title = "DeepSpeed",
                                    .file = "a JSON object with DeepSpeed's keys",
                                    .syntax = FileSyntax::yaml,
                                    .unread = unread_deepspeed_keys,
                                    .read = read_deepspeed};

}  // namespace stagecraft
