#include "libsim/launch/torchtitan_files.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "libsim/launch/torchtitan_gaps.hpp"
#include "libsim/units/split_text.hpp"

namespace stagecraft {
namespace {

/// A model that torchtitan has by name.
/// Source: torchtitan 0.2.2, models/llama3/__init__.py.
struct Flavor {
  std::string_view name;
  std::int64_t layers;
  std::int64_t hidden;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t ffn_hidden;
};
constexpr std::array flavors{Flavor{"8B", 32, 4096, 32, 8, 14336},
                             Flavor{"70B", 80, 8192, 64, 8, 28672},
                             Flavor{"405B", 126, 16384, 128, 8, 53248}};
constexpr std::int64_t vocabulary_of_flavors = 128256;
constexpr double scaling_of_flavors = 8;  ///< the default of RoPEScalingArgs

constexpr std::string_view own_flavor = "planned";
constexpr std::string_view own_module = "planned_flavor";

/// Empty if torchtitan has no flavor of the model.
std::string_view flavor_of(ModelConfig const& model) {
  auto const* const found = std::ranges::find_if(flavors, [&](Flavor const& flavor) {
    return flavor.layers == model.layers && flavor.hidden == model.hidden &&
           flavor.heads == model.heads && flavor.kv_heads == model.kv_heads &&
           flavor.ffn_hidden == model.ffn_hidden && model.vocabulary == vocabulary_of_flavors &&
           model.rotary_scaling == scaling_of_flavors;
  });
  return found == flavors.end() ? std::string_view{} : found->name;
}

std::string in_quotes(std::string_view text) { return "\"" + std::string{text} + "\""; }
std::string word(bool value) { return value ? "true" : "false"; }
std::string number(double value) { return nlohmann::json(value).dump(); }

/// A section of a job configuration.
struct Section {
  std::string_view name;
  std::vector<std::pair<std::string_view, std::string>> keys;
};

Section parallelism(TrainingConfig const& config) {
  ParallelLayout const& layout = config.parallel;
  // Ranks that split sequences are among those that share a unit, beside data_parallel_shard.
  int const sharing =
      config.sharding.group == 0 ? layout.data * layout.context : config.sharding.group;
  int const shard = sharing / layout.context;
  using Kind = Reshard::Kind;
  Kind const reshard = config.sharding.reshard_after_forward.kind;
  Section section{"parallelism",
                  {{"data_parallel_replicate_degree", std::to_string(layout.data / shard)},
                   {"data_parallel_shard_degree", std::to_string(shard)},
                   {"fsdp_reshard_after_forward", in_quotes(reshard == Kind::yes  ? "always"
                                                            : reshard == Kind::no ? "never"
                                                                                  : "default")},
                   {"tensor_parallel_degree", std::to_string(layout.tensor)},
                   {"pipeline_parallel_degree", std::to_string(layout.pipeline)},
                   {"context_parallel_degree", std::to_string(layout.context)}}};
  if (layout.context > 1) {
    bool const gathers = layout.context_method == ContextMethod::all_gather;
    section.keys.emplace_back("context_parallel_rotate_method",
                              in_quotes(gathers ? "allgather" : "alltoall"));
  }
  return section;
}

Section training(TrainingConfig const& config) {
  return {"training",
          {{"local_batch_size", std::to_string(config.batch.micro)},
           {"global_batch_size", std::to_string(config.batch.global)},
           {"seq_len", std::to_string(config.model.sequence)}}};
}

Section activation_checkpoint(TrainingConfig const& config) {
  TrainingConfig const settled = settled_with_stack(config);
  RecomputePolicy const& policy = settled.recompute.front();
  if (policy.granularity == RecomputeGranularity::none) {
    return {"activation_checkpoint", {{"mode", in_quotes("none")}}};
  }
  Section section{"activation_checkpoint", {}};
  if (policy.method == RecomputeMethod::block) {
    section.keys.emplace_back("mode", in_quotes("selective"));
    section.keys.emplace_back("selective_ac_option",
                              in_quotes(std::to_string(checkpointed_every(config))));
  } else {
    section.keys.emplace_back("mode", in_quotes("full"));
  }
  section.keys.emplace_back("early_stop", word(*policy.early_stop));
  return section;
}

/// The converter that makes linear layers Float8Linear, and its section.
constexpr std::string_view float8_converter = "quantize.linear.float8";

Section converters(TrainingConfig const& config) {
  if (config.low_precision.recipe == Recipe::none) return {"model", {}};
  return {"model", {{"converters", "[" + in_quotes(float8_converter) + "]"}}};
}

/// torchtitan takes a recipe's name or enable_fsdp_float8_all_gather, not both. Layer names end
/// with a dot, so that `layers.1.` does not match layer 11.
Section float8(TrainingConfig const& config) {
  LowPrecision const& low = config.low_precision;
  Section section{float8_converter, {}};
  if (low.recipe == Recipe::none) return section;
  bool const gathers_low = config.sharding.parameter_dtype == UnitType::low;
  if (gathers_low) {
    section.keys = {{"enable_fsdp_float8_all_gather", word(true)},
                    {"precompute_float8_dynamic_scale_for_fsdp", word(true)}};
  } else {
    section.keys = {{"recipe_name", in_quotes(low.recipe == Recipe::current ? "tensorwise"
                                              : low.keep_high.wgrad         ? "rowwise_with_gw_hp"
                                                                            : "rowwise")}};
  }
  std::string filtered = "output";
  std::int64_t const layers = config.model.layers;
  for (std::int64_t i = 0; i < layers; ++i) {
    if (i >= low.keep_high.first && i < layers - low.keep_high.last) continue;
    filtered += ",layers." + std::to_string(i) + ".";
  }
  std::string list;
  for (std::string_view const name : split_text(filtered, ",")) {
    list += (list.empty() ? "[" : ", ") + in_quotes(name);
  }
  section.keys.emplace_back("filter_fqns", list + "]");
  return section;
}

std::string job_file(LaunchJob const& job) {
  TrainingConfig const& config = job.config;
  Hyperparameters const& numbers = config.training;
  std::string_view const known = flavor_of(config.model);
  Section of_training = training(config);
  for (auto const& [key, value] : std::initializer_list<std::pair<std::string_view, std::string>>{
           {"max_norm", number(numbers.clip)},
           {"steps", "50"},
           {"dataset", in_quotes("c4_test")},
           {"dtype", in_quotes("float32")},
           {"mixed_precision_param", in_quotes("bfloat16")},
           {"mixed_precision_reduce", in_quotes("float32")}}) {
    of_training.keys.emplace_back(key, value);
  }
  std::vector<Section> sections{
      {"model",
       {{"name", in_quotes("llama3")}, {"flavor", in_quotes(known.empty() ? own_flavor : known)}}},
      of_training,
      parallelism(config),
      activation_checkpoint(config),
      {"compile", {{"enable", word(job.is_compiled)}}}};
  for (auto const& key : converters(config).keys) sections.front().keys.push_back(key);
  if (Section const quantised = float8(config); !quantised.keys.empty()) {
    sections.push_back(quantised);
  }
  if (known.empty())
    sections.push_back({"experimental", {{"custom_import", in_quotes(own_module)}}});
  std::string text = commented(job.about);
  for (Section const& section : sections) {
    text += "\n[" + std::string{section.name} + "]\n";
    for (auto const& [key, value] : section.keys) text += std::string{key} + " = " + value + "\n";
  }
  return text;
}

/// Adds the model to torchtitan's flavors. Its feed-forward size is made to come out of
/// multiple_of, to which FeedForward rounds two thirds of 4 dim up.
std::string flavor_file(ModelConfig const& model) {
  std::int64_t const unrounded = 8 * model.hidden / 3;
  std::string text =
      "from torchtitan.models.llama3 import TransformerModelArgs, llama3_args\n"
      "from torchtitan.models.llama3.model.args import RoPEScalingArgs\n\n"
      "llama3_args[" +
      in_quotes(own_flavor) + "] = TransformerModelArgs(\n    dim=" + std::to_string(model.hidden) +
      ",\n    n_layers=" + std::to_string(model.layers) +
      ",\n    n_heads=" + std::to_string(model.heads) +
      ",\n    n_kv_heads=" + std::to_string(model.kv_heads) +
      ",\n    vocab_size=" + std::to_string(model.vocabulary) +
      ",\n    multiple_of=" + std::to_string(model.ffn_hidden);
  if (unrounded > model.ffn_hidden) {
    text += ",\n    ffn_dim_multiplier=" +
            number(static_cast<double>(model.ffn_hidden) / (2.0 * static_cast<double>(unrounded)));
  }
  return text + ",\n    norm_eps=" + number(model.norm_epsilon) +
         ",\n    rope_theta=" + number(model.rotary_base) +
         ",\n    rope_scaling_args=RoPEScalingArgs(scaling_factor=" + number(model.rotary_scaling) +
         "),\n)\n";
}

std::string torchtitan_script(LaunchJob const& job) {
  JobNodes const nodes = nodes_of(job);
  return "#!/bin/bash\n" + commented(job.about) + "#\n# Run it on every node" +
         (nodes.nodes == 1 ? ":\n#   TORCHTITAN=... bash torchrun.sh\n"
                           : ":\n#   TORCHTITAN=... MASTER_ADDR=first-node bash torchrun.sh\n") +
         "set -euo pipefail\n"
         "FOLDER=$(cd \"$(dirname \"$0\")\" && pwd)\n"
         "export PYTHONPATH=\"$FOLDER:$TORCHTITAN${PYTHONPATH:+:$PYTHONPATH}\"\n" +
         allocator_line(job.config.memory) +
         "cd \"$TORCHTITAN\"\n"
         "torchrun --nproc-per-node " +
         std::to_string(nodes.per_node) + " --nnodes " + std::to_string(nodes.nodes) +
         " \\\n  --rdzv-backend c10d --rdzv-endpoint "
         "\"${MASTER_ADDR:-localhost}:${MASTER_PORT:-29500}\" \\\n"
         "  -m torchtitan.train --job.config_file \"$FOLDER/job.toml\" \"$@\"\n";
}

}  // namespace

std::vector<LaunchFile> torchtitan_files(LaunchJob const& job) {
  std::vector<LaunchFile> files{
      {"torchrun.sh", torchtitan_script(job),
       "starts torchtitan with torchrun; run it on every node"},
      {"job.toml", job_file(job), "the job configuration, of torchtitan 0.2.2"}};
  if (flavor_of(job.config.model).empty()) {
    files.push_back({std::string{own_module} + ".py", flavor_file(job.config.model),
                     "the model, which torchtitan does not have by name"});
  }
  return files;
}

std::string torchtitan_layout_flags(TrainingConfig const& config) {
  std::string text;
  for (Section const& section :
       {parallelism(config), training(config), activation_checkpoint(config), converters(config),
        float8(config)}) {
    for (auto const& [key, value] : section.keys) {
      std::string plain = value;
      std::erase_if(plain, [](char c) { return c == '"' || c == '[' || c == ']' || c == ' '; });
      bool const is_switch = plain == "true" || plain == "false";
      std::string name{key};
      if (plain == "false") {  // `no-` and dashes, as tyro has the negation of a switch
        name = "no-" + name;
        std::ranges::replace(name, '_', '-');
      }
      text += (text.empty() ? "--" : " --") + std::string{section.name} + "." + name;
      if (!is_switch) text += " " + plain;
    }
  }
  return text;
}

}  // namespace stagecraft
