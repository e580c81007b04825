#include <algorithm>
#include <array>
#include <cctype>

#include "libsim/import/frameworks/deepspeed_keys.hpp"
#include "libsim/import/frameworks/framework_batch.hpp"
#include "libsim/import/frameworks/framework_import.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view zero = "zero_optimization";

std::string zero_key(std::string_view name) { return std::string{zero} + "." + std::string{name}; }

/// A batch that the file says, or the Trainer of transformers where the file says `auto`.
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
    keys.report_missing(micro_key, "a whole number, or --micro-batch N");
    return;
  }
  if (global && micro && !accumulation) accumulation = *global / (*micro * replicas);
  if (global && !micro) micro = *global / (replicas * accumulation.value_or(1));
  std::int64_t const steps = accumulation.value_or(1);
  if (global && (*micro < 1 || steps < 1 || *global != *micro * steps * replicas)) {
    keys.report_missing(global_key, std::to_string(*micro) + " x " + std::to_string(steps) + " x " +
                                        std::to_string(replicas) +
                                        ": microbatch, accumulation, replicas");
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
      word = precision;
    }
  }
  run.model["precision"] = word;
}

/// The keys of sizes that are a run file's as well, in elements. Those that are `auto` are set by
/// transformers from the hidden size h: integrations/deepspeed.py, trainer_config_finalize.
struct SizeKey {
  std::string_view name;
  std::string_view key;  ///< of `sharding`
  double automatic;      ///< times h^power
  int power;
  int first_stage;
};

constexpr std::array size_keys{
    SizeKey{"reduce_bucket_size", "bucket", 1, 2, 1},
    SizeKey{"stage3_prefetch_bucket_size", "prefetch_bucket", 0.9, 2, 3},
    SizeKey{"stage3_param_persistence_threshold", "threshold", 10, 1, 3},
    SizeKey{"stage3_max_live_parameters", "max_live", 0, 0, 3},
    SizeKey{"stage3_max_reuse_distance", "reuse_distance", 0, 0, 3},
};

void read_sizes(FrameworkKeys& keys,
                ModelConfig const& model,
                int stage,
                nlohmann::ordered_json& sharding) {
  for (SizeKey const& size : size_keys) {
    std::string const name = zero_key(size.name);
    std::optional<std::int64_t> value;
    if (!keys.is_auto(name)) {
      value = keys.count(name, 0);
    } else if (size.power > 0) {
      double const hidden = static_cast<double>(model.hidden);
      value =
          static_cast<std::int64_t>(size.automatic * (size.power == 2 ? hidden * hidden : hidden));
    }
    if (value && stage >= size.first_stage) sharding[size.key] = *value;
  }
}

/// `offload_optimizer` or `offload_param`: whether it goes to the host.
bool goes_to_host(FrameworkKeys& keys, std::string_view section, std::string_view old_key) {
  std::string const key = zero_key(section) + ".device";
  std::string const device = keys.text(key).value_or("none");
  if (device == "nvme") {
    keys.leave_out(key, OmittedEffect::large, "more time, less host memory",
                   "it is modelled in the host's memory");
  } else if (device != "cpu" && device != "none") {
    keys.find(key)->report("none, cpu, nvme");
  }
  return device != "none" || keys.is_true(zero_key(old_key));
}

void read_offload(FrameworkKeys& keys, int stage, FrameworkRun& run) {
  nlohmann::ordered_json offload = nlohmann::ordered_json::object();
  if (goes_to_host(keys, "offload_optimizer", "cpu_offload")) {
    std::string const ratio = zero_key("offload_optimizer.ratio");
    double const share = keys.number(ratio, {0, 1, true}).value_or(1);
    if (share < 1 && stage != 3) keys.find(ratio)->report("1, or stage 3");
    offload["optimizer"] = share;
  }
  if (goes_to_host(keys, "offload_param", "cpu_offload_param")) {
    if (stage == 3) {
      offload["parameters"] = true;
    } else {
      keys.note("parameters stay on the device, because DeepSpeed offloads them in stage 3 alone");
    }
  }
  if (!offload.empty()) run.sections["offload"] = offload;
}

void read_deepspeed_optimizer(FrameworkKeys& keys) {
  constexpr std::string_view key = "optimizer.type";
  std::string type = keys.text(key).value_or("adamw");
  std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::tolower(c); });
  if (type == "adam" || type == "adamw") return;
  keys.leave_out(key, OmittedEffect::large, "either way", "Adam is modelled");
}

int read_stage(FrameworkKeys& keys) {
  // The form of 2020: "zero_optimization": true.
  auto const whole = keys.find(zero);
  if (whole && !whole->is_map()) return whole->boolean().value_or(false) ? 1 : 0;
  auto const stage = keys.count(zero_key("stage"), 0);
  if (!stage) return 0;
  if (*stage > 3) keys.find(zero_key("stage"))->report("0, 1, 2, 3");
  return static_cast<int>(std::min<std::int64_t>(*stage, 3));
}

void read_communication(FrameworkKeys& keys, nlohmann::ordered_json& sharding) {
  constexpr std::string_view key = "communication_data_type";
  auto const type = keys.text(key);
  if (!type) return;
  if (*type == "fp16" || *type == "bf16" || *type == "fp32") {
    sharding["reduce_dtype"] = *type;
  } else {
    keys.find(key)->report("fp16, bf16, fp32");
  }
}

void read_deepspeed_sharding(FrameworkKeys& keys,
                             FrameworkOptions const& options,
                             FrameworkRun& run) {
  int const stage = read_stage(keys);
  nlohmann::ordered_json sharding;
  sharding["kind"] = stage == 0 ? "none" : "zero" + std::to_string(stage);
  read_sizes(keys, model_of(run, options), stage, sharding);
  std::string const overlap = zero_key("overlap_comm");
  if (keys.has(overlap) && !keys.is_auto(overlap) && stage > 0) {
    sharding["overlap"] = keys.is_true(overlap);
  }
  auto const copies = keys.count(zero_key("zero_hpz_partition_size"), 0);
  if (copies && *copies > 1 && stage == 3) sharding["reshard_after_forward"] = *copies;
  auto const shards = keys.count(zero_key("mics_shard_size"), -1);
  if (shards && *shards > 0 && stage == 3) sharding["group"] = *shards;
  if (stage > 0) read_communication(keys, sharding);
  run.sections["sharding"] = sharding.size() == 1 ? sharding["kind"] : sharding;
  read_offload(keys, stage, run);
}

void read_deepspeed(FrameworkKeys& keys, FrameworkOptions const& options, FrameworkRun& run) {
  run.software = "fsdp1";
  keys.note(
      "the kernels are the model's and not in the file: those of Hugging Face's Trainer, as in "
      "stack "
      "fsdp1");
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
