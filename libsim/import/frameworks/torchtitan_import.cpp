#include <algorithm>
#include <array>

#include "libsim/import/frameworks/framework_batch.hpp"
#include "libsim/import/frameworks/framework_import.hpp"
#include "libsim/import/frameworks/torchtitan_float8.hpp"
#include "libsim/import/frameworks/torchtitan_keys.hpp"
#include "libsim/import/frameworks/zero_stage.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

/// The name that the file uses of those that a key has had since 2024; the first if it uses none.
std::string_view name_in(FrameworkKeys& keys, std::initializer_list<std::string_view> names) {
  std::string_view found = *names.begin();
  for (std::string_view const name : names) {
    if (keys.has(name)) found = name;
  }
  return found;
}

/// The ranks of an axis, whose key was in other sections in 2024.
std::int64_t degree(FrameworkKeys& keys, std::string const& name) {
  std::int64_t ranks = 1;
  for (std::string const section : {"parallelism.", "training.", "experimental."}) {
    ranks = keys.count(section + name, 1).value_or(ranks);
  }
  return ranks;
}

/// \return whether the model is known
bool read_torchtitan_model(FrameworkKeys& keys,
                           FrameworkOptions const& options,
                           FrameworkRun& run) {
  std::string const name = keys.text("model.name").value_or("llama3");
  std::string const flavor = keys.text("model.flavor").value_or("debugmodel");
  auto const row = std::ranges::find_if(torchtitan_models, [&](TorchtitanModel const& model) {
    return model.name == name && model.flavor == flavor;
  });
  if (row != torchtitan_models.end()) {
    run.base = row->model;
  } else if (options.model.empty()) {
    std::string accepted = "--model NAME, or one of ";
    for (TorchtitanModel const& model : torchtitan_models) {
      accepted += (&model == torchtitan_models.data() ? "" : ", ") + std::string{model.name} + " " +
                  std::string{model.flavor};
    }
    keys.report("model.flavor", accepted);
    return false;
  }
  constexpr std::string_view type_key = "training.mixed_precision_param";
  std::string const type = keys.text(type_key).value_or("bfloat16");
  if (type != "bfloat16" && type != "float32") keys.report(type_key, "bfloat16, float32");
  run.model["precision"] = type == "float32" ? "fp32" : "bf16";
  // The command's --sequence wins: sections_of().
  run.model["sequence"] = keys.count("training.seq_len", 1).value_or(2048);
  return true;
}

void read_torchtitan_recompute(FrameworkKeys& keys,
                               FrameworkOptions const& options,
                               bool is_old,
                               FrameworkRun& run) {
  std::string const mode = keys.text("activation_checkpoint.mode").value_or("selective");
  std::string const option = keys.text("activation_checkpoint.selective_ac_option").value_or("2");
  constexpr std::string_view early_key = "activation_checkpoint.early_stop";
  // Before this key existed, torch's own default held.
  bool const stops_early = keys.has(early_key) ? keys.is_true(early_key) : is_old;
  nlohmann::ordered_json recompute;
  if (mode == "none") {
    run.sections["recompute"] = "none";
    return;
  }
  if (mode == "full") {
    recompute["granularity"] = "full";
  } else if (mode == "selective" && option == "op") {
    // It keeps every second product of a layer: wk, wo and w3 are computed again, which the mlp's
    // first products stand for, and everything between products.
    recompute = {{"granularity", "selective"}, {"modules", {"mlp", "layernorm"}}};
    keys.note(
        "selective_ac_option op keeps every second product: recompute of mlp and layernorm stands "
        "for it, whose time is its own and whose memory is near it");
  } else if (mode == "selective") {
    auto const every = parse_number<int>(option);
    if (!every || *every < 1) {
      keys.report("activation_checkpoint.selective_ac_option", "op, or a whole number");
      return;
    }
    if (model_of(run, options).layers < *every) {
      run.sections["recompute"] = "none";
      return;
    }
    recompute = {{"granularity", "full"},
                 {"method", "block"},
                 {"layers", model_of(run, options).layers / *every}};
  } else if (mode == "memory_budget") {
    keys.leave_out("activation_checkpoint.mode", OmittedEffect::large, "more time, less memory",
                   "nothing is recomputed");
    return;
  } else {
    keys.find("activation_checkpoint.mode")->report("none, selective, full, memory_budget");
    return;
  }
  recompute["early_stop"] = stops_early;
  run.sections["recompute"] = recompute;
}

void read_torchtitan_compile(FrameworkKeys& keys, FrameworkRun& run) {
  bool is_compiled = keys.is_true(name_in(keys, {"compile.enable", "training.compile"}));
  if (auto const components = keys.find("compile.components"); components && is_compiled) {
    auto const items = components->items();
    is_compiled =
        std::ranges::any_of(items, [](ConfigNode const& item) { return item.reads("model"); });
  }
  run.software = is_compiled ? "torchtitan" : "torchtitan-eager";
  auto const is_async = name_in(keys, {"parallelism.enable_async_tensor_parallel",
                                       "experimental.enable_async_tensor_parallel"});
  if (keys.is_true(is_async)) run.constants["tensor"]["own_shard_first"] = true;
}

void read_torchtitan_pipeline(FrameworkKeys& keys, std::int64_t stages, FrameworkRun& run) {
  constexpr std::string_view key = "parallelism.pipeline_parallel_schedule";
  std::string const schedule = keys.text(key).value_or("1F1B");
  if (stages == 1) return;
  auto const row = std::ranges::find(torchtitan_schedules, schedule, &TorchtitanSchedule::name);
  if (row == torchtitan_schedules.end()) {
    keys.find(key)->report("1F1B, GPipe, Interleaved1F1B, InterleavedZeroBubble, ZBVZeroBubble");
    return;
  }
  run.sections["schedule"] = row->schedule;
}

void read_torchtitan(FrameworkKeys& keys, FrameworkOptions const& options, FrameworkRun& run) {
  if (!read_torchtitan_model(keys, options, run)) return;
  std::int64_t const tensor = degree(keys, "tensor_parallel_degree");
  std::int64_t const context = degree(keys, "context_parallel_degree");
  std::int64_t const pipeline = degree(keys, "pipeline_parallel_degree");
  std::int64_t const copies = degree(keys, "data_parallel_replicate_degree");
  std::int64_t const expert = degree(keys, "expert_parallel_degree");
  auto const shard_key =
      name_in(keys, {"parallelism.data_parallel_shard_degree",
                     "training.data_parallel_shard_degree", "training.data_parallel_degree"});
  auto const replicas =
      replicas_of(keys, "world size", options.world_size, tensor * context * pipeline);
  if (!replicas) return;
  std::int64_t shards = keys.count(shard_key, -1).value_or(-1);
  if (shards < 1) shards = *replicas / copies;
  if (shards * copies != *replicas) {
    keys.report(shard_key, std::to_string(shards) + " x " + std::to_string(copies) + " copies",
                std::to_string(*replicas) + " ranks in all");
    return;
  }
  nlohmann::ordered_json parallel;
  if (tensor > 1) parallel.update({{"tensor", tensor}, {"sequence", true}});
  if (context > 1) {
    parallel["context"] = context;
    auto const method = name_in(keys, {"parallelism.context_parallel_rotate_method",
                                       "experimental.context_parallel_rotate_method"});
    if (keys.text(method).value_or("allgather") == "allgather") {
      parallel["context_method"] = "all_gather";
    }
  }
  if (pipeline > 1) parallel["pipeline"] = pipeline;
  parallel["data"] = *replicas;
  if (expert > 1) {
    parallel["expert"] = expert;
    parallel["expert_tensor"] = degree(keys, "expert_tensor_parallel_degree");
  }
  run.sections["parallel"] = parallel;

  auto const batch_key = name_in(keys, {"training.local_batch_size", "training.batch_size"});
  bool const is_old = batch_key == "training.batch_size";
  std::int64_t const batch = options.micro_batch.value_or(keys.count(batch_key, 1).value_or(8));
  auto const piece_key = name_in(keys, {"parallelism.pipeline_parallel_microbatch_size"});
  std::int64_t const piece = keys.count(piece_key, 1).value_or(1);
  std::int64_t const micro = pipeline > 1 ? piece : batch;
  std::int64_t const global = keys.count("training.global_batch_size", -1).value_or(-1);
  std::int64_t const sum = global > 0 ? global : batch * *replicas;
  if (sum % (batch * *replicas) != 0) {
    keys.report("training.global_batch_size",
                "a multiple of " + std::to_string(batch) + " x " + std::to_string(*replicas));
    return;
  }
  write_batch(run, micro, sum / (micro * *replicas), *replicas);
  read_torchtitan_pipeline(keys, pipeline, run);
  read_torchtitan_recompute(keys, options, is_old, run);

  bool const has_units = shards > 1 || context > 1;
  nlohmann::ordered_json sharding{{"kind", has_units ? "fsdp2" : "none"}};
  constexpr std::string_view reshard_key = "parallelism.fsdp_reshard_after_forward";
  std::string const reshard = keys.text(reshard_key).value_or("default");
  bool const keeps = reshard == "never" || (reshard == "default" && pipeline > 1);
  if (reshard != "default" && reshard != "always" && reshard != "never") {
    keys.find(reshard_key)->report("default, always, never");
  } else if (has_units && (keeps || reshard == "always")) {
    sharding["reshard_after_forward"] = !keeps;
  }
  if (has_units && copies > 1) sharding["group"] = shards * context;
  std::string const stored = keys.text("training.dtype").value_or("float32");
  if (stored != "bfloat16" && stored != "float32") {
    keys.report("training.dtype", "bfloat16, float32");
  }
  if (has_units && stored == "bfloat16") sharding["stored_dtype"] = "bf16";
  // train_step() never asks fully_shard for no_sync.
  if (has_units && sum > micro * *replicas) sharding["sync"] = "every";
  read_torchtitan_float8(keys, options, has_units, run, sharding);
  run.sections["sharding"] = sharding.size() == 1 ? sharding["kind"] : sharding;
  auto const offload_key =
      name_in(keys, {"training.enable_cpu_offload", "experimental.enable_fsdp_cpu_offload"});
  if (keys.is_true(offload_key)) leave_out_offloaded_parameters(keys, offload_key);
  read_torchtitan_compile(keys, run);
}

}  // namespace

Framework const torchtitan_framework{.name = "torchtitan",
                                     .title = "torchtitan",
                                     .file = "a TOML table with torchtitan's sections",
                                     .syntax = FileSyntax::toml,
                                     .unread = unread_torchtitan_keys,
                                     .read = read_torchtitan};

}  // namespace stagecraft
