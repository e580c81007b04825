#include "libsim/import/foreign_format.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "libsim/config/problem.hpp"
#include "libsim/config/yaml_tree.hpp"

namespace stagecraft {
namespace {

constexpr ForeignFormat huggingface{"a config.json of Hugging Face",
                                    "stagecraft import huggingface"};
constexpr ForeignFormat deepspeed{"a configuration of DeepSpeed", "stagecraft import deepspeed"};
constexpr ForeignFormat accelerate{"a configuration of Accelerate", "stagecraft import accelerate"};
constexpr ForeignFormat nanotron{"a configuration of nanotron", ""};
constexpr ForeignFormat torchtitan{"a configuration of torchtitan", "stagecraft import torchtitan"};
constexpr ForeignFormat nccl_tests{"a log of nccl-tests", "stagecraft import nccl-tests"};
constexpr ForeignFormat run_file{"a run file of stagecraft", "stagecraft simulate"};
constexpr ForeignFormat script{"a launch script", "stagecraft import megatron --script"};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::optional<ForeignFormat> format_of(YamlNode const& root, bool is_json) {
  auto const has_all = [&](std::initializer_list<std::string_view> keys) {
    return std::ranges::all_of(keys, [&](auto key) { return root.find(key) != nullptr; });
  };
  if (is_json && has_all({"model_type"})) return huggingface;
  if (has_all({"zero_optimization"}) || has_all({"train_micro_batch_size_per_gpu"})) {
    return deepspeed;
  }
  if (has_all({"distributed_type", "num_processes"})) return accelerate;
  if (has_all({"parallelism", "tokens"})) return nanotron;
  if (has_all({"model", "system", "batch"})) return run_file;
  return std::nullopt;
}

}  // namespace

std::optional<ForeignFormat> foreign_format(std::string_view text) {
  if (text.starts_with("#!")) return script;
  if (contains(text, "# nThread") && contains(text, "busbw")) return nccl_tests;
  if (contains(text, "[parallelism]") && contains(text, "[training]")) return torchtitan;
  Diagnostics diagnostics;
  std::optional<YamlNode> const root = parse_yaml(text, "", diagnostics);
  std::size_t const start = text.find_first_not_of(" \t\r\n");
  bool const is_json = start != std::string_view::npos && text[start] == '{';
  return root ? format_of(*root, is_json) : std::nullopt;
}

std::string text_of(ForeignFormat const& format) {
  std::string text{format.name};
  if (format.command.empty()) return text + ", which no command reads";
  return text + ", which " + std::string{format.command} + " FILE reads";
}

}  // namespace stagecraft
