#include "libsim/import/megatron/megatron_import.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <utility>

#include "libsim/config/yaml_text.hpp"
#include "libsim/config/yaml_tree.hpp"
#include "libsim/import/megatron/megatron_attention.hpp"
#include "libsim/import/megatron/megatron_doubts.hpp"
#include "libsim/import/megatron/megatron_experts.hpp"
#include "libsim/import/megatron/megatron_flags.hpp"
#include "libsim/import/megatron/megatron_fsdp.hpp"
#include "libsim/import/megatron/megatron_gaps.hpp"
#include "libsim/import/megatron/megatron_layout.hpp"
#include "libsim/import/megatron/megatron_low_precision.hpp"
#include "libsim/import/megatron/megatron_model.hpp"
#include "libsim/import/megatron/megatron_settings.hpp"
#include "libsim/import/megatron/megatron_training.hpp"
#include "libsim/model/read_values.hpp"
#include "libsim/training/training_config_reader.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

/// The flags from which the keys of a run come.
constexpr std::array<std::pair<std::string_view, std::string_view>, 21> flags_of_keys{
    {{"model.layers", "--num-layers"},
     {"model.hidden", "--hidden-size"},
     {"model.heads", "--num-attention-heads"},
     {"model.kv_heads", "--num-query-groups"},
     {"model.head_dim", "--kv-channels"},
     {"model.vocabulary", "--vocab-size"},
     {"parallel.tensor", "--tensor-model-parallel-size"},
     {"parallel.pipeline", "--pipeline-model-parallel-size"},
     {"parallel.interleave", "--num-layers-per-virtual-pipeline-stage"},
     {"parallel.expert", "--expert-model-parallel-size"},
     {"parallel.expert_tensor", "--expert-tensor-parallel-size"},
     {"parallel.sequence", "--sequence-parallel"},
     {"routing.capacity", "--moe-expert-capacity-factor"},
     {"batch.global", "--global-batch-size"},
     {"batch.micro", "--micro-batch-size"},
     {"schedule.group", "--microbatch-group-size-per-virtual-pipeline-stage"},
     {"recompute.layers", "--recompute-num-layers"},
     {"recompute.sharded_checkpoints", "--distribute-saved-activations"},
     {"offload.activations.layers", "--cpu-offloading-num-layers"},
     {"offload.activations.modules", "--offload-modules"},
     {"offload.activations.fraction", "--activation-offload-fraction"}}};

/// The bytes of CUBLAS_WORKSPACE_CONFIG, pairs `:KiB:COUNT`; nullopt if it is not set or has none,
/// because PyTorch then takes its default. Source: aten/src/ATen/cuda/CublasHandlePool.cpp,
/// parseChosenWorkspaceSize.
std::optional<Bytes> cublas_workspace(std::string_view text) {
  std::vector<std::int64_t> numbers;
  while (text.starts_with(':')) {
    std::size_t const end = std::min(text.find(':', 1), text.size());
    auto const number = parse_number<std::int64_t>(text.substr(1, end - 1));
    if (!number || *number < 0 || *number > std::numeric_limits<std::int32_t>::max()) break;
    numbers.push_back(*number);
    text.remove_prefix(end);
  }
  std::int64_t kibibytes = 0;
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) {
    kibibytes += numbers[i] * numbers[i + 1];
  }
  if (kibibytes == 0) return std::nullopt;
  return Bytes{kibibytes << 10};
}

/// Reads the run again as a run file, which checks what depends on several flags.
TrainingConfig settle(TrainingConfig const& config,
                      std::string const& origin,
                      Diagnostics& diagnostics) {
  Diagnostics checks;
  auto const root = parse_yaml(yaml_text(to_json(config)), origin, checks);
  TrainingConfig settled = read_training_config(ConfigNode{*root, "", checks});
  Place const whole{std::make_shared<std::string const>(origin)};
  for (Problem problem : checks.problems()) {
    auto const flag = std::find_if(flags_of_keys.begin(), flags_of_keys.end(),
                                   [&](auto const& entry) { return entry.first == problem.key; });
    if (flag != flags_of_keys.end()) {
      problem.key = std::string{flag->second} + " (" + problem.key + ")";
    }
    problem.place = whole;
    diagnostics.add(std::move(problem));
  }
  return settled;
}

/// Block recompute of more layers than a chunk has is that of the whole chunk (transformer_block.py
/// compares each layer's number with it).
void limit_block_to_chunk(MegatronArguments& arguments, TrainingConfig& config) {
  RecomputePolicy& policy = config.recompute.front();
  if (policy.granularity != RecomputeGranularity::full || policy.method != RecomputeMethod::block) {
    return;
  }
  std::int64_t const chunks = std::int64_t{config.parallel.pipeline} * config.parallel.interleave;
  std::int64_t most = config.model.layers / chunks;
  if (config.layout.kind == LayerSplit::Kind::list && !config.layout.list.empty()) {
    most = *std::ranges::max_element(config.layout.list);
  }
  if (config.layout.kind == LayerSplit::Kind::first_last || most < 1 || policy.layers <= most) {
    return;
  }
  arguments.note("recompute by blocks of " + std::to_string(policy.layers) +
                 " layers is that of all " + std::to_string(most) + " layers of a chunk");
  policy.layers = static_cast<int>(most);
}

bool is_precision(std::string_view flag) { return flag == "fp16" || flag == "bf16"; }

/// The flags of the options' model, and then the words, which win. A setting of no value leaves
/// what the model says to the checkpoint, and so does not take it back. `notes` become what
/// Megatron-LM has no flags for.
std::vector<ShellWord> with_model(std::vector<ShellWord> words,
                                  std::optional<ModelConfig> const& model,
                                  std::vector<std::string>& notes) {
  if (!model) return words;
  TrainingConfig config;
  config.model = *model;
  std::string const changed = take_megatron_order(config);
  if (!changed.empty()) notes.push_back("--model: " + changed);
  for (std::string const& gap : megatron_gaps_of_model(config, MegatronVersion::current)) {
    notes.push_back("--model: " + gap);
  }
  bool const has_precision = std::ranges::any_of(words, [](ShellWord const& word) {
    return word.text.starts_with("--") && is_precision(std::string_view{word.text}.substr(2));
  });
  std::vector<ShellWord> result;
  for (FlagWords const& flag : model_flag_words(config.model)) {
    if (has_precision && is_precision(flag.flag)) continue;
    std::string const written = "--" + flag.flag;
    std::erase_if(words, [&](ShellWord const& word) {
      return word.text == written + "=" + std::string{taken_back};
    });
    result.push_back({written, 0, 0});
    for (std::string const& value : flag.values) result.push_back({value, 0, 0});
  }
  result.insert(result.end(), words.begin(), words.end());
  return result;
}

MegatronImport import_words(std::vector<ShellWord> const& given,
                            std::string const& origin,
                            MegatronOptions const& options) {
  Diagnostics diagnostics;
  Omissions omissions{options.ignore, options.strictness};
  std::vector<std::string> notes;
  std::vector<ShellWord> const words = with_model(given, options.model, notes);
  MegatronArguments arguments{words, origin, omissions, diagnostics};

  leave_out_doubts(options.doubts, origin, omissions, diagnostics, notes);
  for (std::string& note : notes) arguments.note(std::move(note));
  // What else is wrong with a run that is not read anyway says nothing.
  if (arguments.is_of_other_program()) diagnostics.throw_if_any();

  MegatronImport result;
  std::string const old_flag = arguments.old_flag();
  MegatronVersion const version = options.version.value_or(
      old_flag.empty() ? MegatronVersion::current : MegatronVersion::of_2022);
  if (!options.version) {
    arguments.note(old_flag.empty() ? "read as flags of the current Megatron-LM"
                                    : "read as flags of Megatron-LM of 2022, for " + old_flag);
  }
  if (arguments.has("use-checkpoint-args")) {
    arguments.note("--use-checkpoint-args: a checkpoint's own flags of the model win over these");
  }
  TrainingConfig config;
  read_megatron_model(arguments, version, config.model);
  read_megatron_layout(arguments, version, options.world_size, config);
  read_megatron_experts(arguments, config);
  read_megatron_fsdp(arguments, config);
  read_megatron_windows(arguments, config.model);
  config.recompute = read_megatron_recompute(arguments, config.model);
  limit_block_to_chunk(arguments, config);
  config.offload.activations = read_megatron_offload(arguments);
  config.low_precision = read_megatron_low_precision(arguments, config);
  config.training = read_megatron_training(arguments);
  if (version == MegatronVersion::current) {
    bool const is_local = is_local_megatron(arguments, version);
    result.software = is_local ? "megatron-core-local" : "megatron-core";
  }
  config.deterministic = arguments.has("deterministic-mode");
  if (config.deterministic) {
    arguments.refuse("deterministic-mode", "a run without it", {"the usual kernels", "more time"});
  }
  config.memory.allocator_settings = options.environment.allocator_settings;
  config.memory.cublas_workspace = cublas_workspace(options.environment.cublas_workspace);
  result.notes = arguments.finish();
  result.left_out = omissions.list();
  result.version = version;
  diagnostics.throw_if_any();
  result.config = settle(config, origin, diagnostics);
  diagnostics.throw_if_any();
  // The order that overlapped exchanges come to follows from the rest.
  if (config.parallel.expert_overlap) result.config.schedule = config.schedule;
  return result;
}

}  // namespace

MegatronImport import_megatron(std::vector<ShellWord> const& words,
                               std::string const& origin,
                               MegatronOptions const& options) {
  try {
    return import_words(words, origin, options);
  } catch (ConfigError const& error) {
    throw ConfigError{with_doubts(error.problems(), options.doubts)};
  }
}

nlohmann::ordered_json run_sections(MegatronImport const& import, std::string const& system) {
  nlohmann::ordered_json const sections = to_json(settled_with_stack(import.config));
  nlohmann::ordered_json root;
  for (auto const& [key, section] : sections.items()) {
    root[key] = section;
    if (key != "model") continue;
    root["system"] = system;
    if (!import.software.empty()) root["software"] = import.software;
  }
  return root;
}

std::string to_run_file(MegatronImport const& import,
                        std::string const& system,
                        std::string const& origin,
                        std::string const& remark) {
  return "# Megatron-LM's flags from " + printable(origin) + ".\n" +
         (remark.empty() ? "" : "# " + remark + "\n") + yaml_text(run_sections(import, system));
}

}  // namespace stagecraft
