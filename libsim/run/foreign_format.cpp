#include "libsim/run/foreign_format.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "libsim/config/problem.hpp"

namespace stagecraft {
namespace {

constexpr ForeignFormat huggingface{"a config.json of Hugging Face",
                                    "stagecraft import huggingface"};
constexpr ForeignFormat deepspeed{"a configuration of DeepSpeed", "stagecraft import deepspeed"};
constexpr ForeignFormat torchtitan{"a configuration of torchtitan", "stagecraft import torchtitan"};
constexpr ForeignFormat nccl_tests{"a log of nccl-tests", "stagecraft import nccl-tests"};
constexpr ForeignFormat run_file{"a run file of stagecraft", "stagecraft simulate"};
constexpr ForeignFormat script{
    .name = "a launch script", .command = "stagecraft import megatron --script", .is_script = true};
constexpr std::string_view megatron_names = "stagecraft import megatron --yaml";
constexpr ForeignFormat bridge{"a run file of Megatron-Bridge", megatron_names, "Megatron-Bridge"};
constexpr ForeignFormat megatron{"a run file of Megatron-LM", megatron_names, "Megatron-LM"};
constexpr ForeignFormat primus{"a run file of Primus", megatron_names, "Primus"};
constexpr ForeignFormat swift{"a run file of ms-swift", megatron_names, "ms-swift"};

/// A document with all of the keys is of the format.
struct FormatKeys {
  ForeignFormat format;
  std::vector<std::string_view> keys;
  std::string_view map{};  ///< one of the keys, if its value must be a map
};

std::vector<FormatKeys> const& formats() {
  static std::vector<FormatKeys> const all{
      {deepspeed, {"zero_optimization"}},
      {deepspeed, {"train_micro_batch_size_per_gpu"}},
      {{"a configuration of Accelerate", "stagecraft import accelerate"},
       {"distributed_type", "num_processes"}},
      {{"a configuration of nanotron", ""}, {"parallelism", "tokens"}},
      {primus, {"modules", "work_group"}},
      {primus, {"modules", "exp_name"}},
      {{"a run file of verl", megatron_names, "verl"}, {"actor_rollout_ref"}},
      {{"a configuration of NeMo", ""}, {"trainer", "exp_manager", "model"}},
      {bridge, {"model", "train"}, "model"},
      {bridge, {"model", "ddp"}, "model"},
      {bridge, {"model_config"}},
      {swift, {"tuner_type"}},
      {swift, {"train_type"}},
      {swift, {"load_safetensors"}},
      {megatron, {"language_model", "model_parallel"}},
      {megatron, {"num_layers", "hidden_size", "num_attention_heads"}},
      {huggingface, {"num_hidden_layers", "hidden_size"}}};
  return all;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_of(YamlNode const& root, FormatKeys const& format) {
  return std::ranges::all_of(format.keys, [&](std::string_view key) {
    YamlNode const* const value = root.find(key);
    return value != nullptr && (key != format.map || value->kind == YamlNode::Kind::map);
  });
}

}  // namespace

std::optional<ForeignFormat> foreign_format(YamlNode const& root, bool may_be_json) {
  if (may_be_json && root.find("model_type") != nullptr) return huggingface;
  auto const found = std::ranges::find_if(
      formats(), [&](FormatKeys const& format) { return is_of(root, format); });
  return found == formats().end() ? std::nullopt : std::optional{found->format};
}

std::optional<ForeignFormat> foreign_format(std::string_view text) {
  if (text.starts_with("#!")) return script;
  if (contains(text, "# nThread") && contains(text, "busbw")) return nccl_tests;
  if (contains(text, "[parallelism]") && contains(text, "[training]")) return torchtitan;
  Diagnostics diagnostics;
  std::optional<YamlNode> const root = parse_yaml(text, "", diagnostics);
  if (!root || root->kind != YamlNode::Kind::map) {
    constexpr std::array<std::string_view, 3> words{"#SBATCH ", "torchrun ", "pretrain_gpt.py"};
    bool const is_script =
        std::ranges::any_of(words, [&](std::string_view word) { return contains(text, word); });
    return is_script ? std::optional{script} : std::nullopt;
  }
  auto const has = [&](std::string_view key) { return root->find(key) != nullptr; };
  if (has("model") && has("system") && has("batch")) return run_file;
  return foreign_format(*root, text[text.find_first_not_of(" \t\r\n")] == '{');
}

std::string text_of(ForeignFormat const& format) {
  std::string text{format.name};
  if (format.command.empty()) return text + ", which no command reads";
  return text + ", which " + std::string{format.command} + " FILE reads";
}

}  // namespace stagecraft
