#include <algorithm>
#include <filesystem>
#include <iostream>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apps/program/command_line.hpp"
#include "apps/program/file_count.hpp"
#include "apps/program/output_paths.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/command_results.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/import_output.hpp"
#include "libsim/config/did_you_mean.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/hardware/recipe_support.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/import/huggingface/huggingface_import.hpp"
#include "libsim/import/megatron/megatron_import.hpp"
#include "libsim/import/megatron/megatron_settings.hpp"
#include "libsim/import/omissions.hpp"
#include "libsim/import/settings_files.hpp"
#include "libsim/import/shell/launch_script.hpp"
#include "libsim/import/text_file.hpp"
#include "libsim/model/model_config_reader.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/run/named_file.hpp"
#include "libsim/units/split_text.hpp"

namespace stagecraft {

namespace {

int run_huggingface_import(CommandLine const& line) {
  return write_import(line, OutputKind::model, import_huggingface_as_asked(line));
}

int run_megatron_import(CommandLine const& line) {
  return write_import(line, OutputKind::run, import_megatron_as_asked(line));
}

/// NAME=VALUE pairs.
std::map<std::string, std::string> variables_of(CommandLine const& line) {
  std::map<std::string, std::string> variables;
  for (std::string const& text : line.values_of("variable")) {
    std::size_t const equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw CommandLineError{"--variable", "'" + text + "'", "NAME=VALUE"};
    }
    variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

/// The model that --model names. What a config.json's import notes and leaves out is added.
ModelConfig model_on_line(CommandLine const& line,
                          std::vector<std::string>& notes,
                          std::vector<Omission>& left_out) {
  std::filesystem::path const file = named_file(line.value("model"), "models", {});
  if (file.extension() != ".json") return load_model_file(line.value("model"));
  HuggingfaceOptions const wanted{.ignore = ignored_names(line), .strictness = strictness_of(line)};
  HuggingfaceImport import = import_huggingface(file.string(), wanted);
  for (std::string& note : import.notes) notes.push_back("--model: " + std::move(note));
  left_out.insert(left_out.end(), import.left_out.begin(), import.left_out.end());
  return std::move(import.model);
}

MegatronOptions megatron_options(CommandLine const& line) {
  MegatronOptions wanted;
  wanted.ignore = ignored_names(line);
  wanted.strictness = strictness_of(line);
  if (line.has("world-size")) {
    wanted.world_size = line.whole_number("world-size", 1, std::numeric_limits<int>::max());
  }
  if (line.has("megatron")) {
    wanted.version =
        line.value("megatron") == "2022" ? MegatronVersion::of_2022 : MegatronVersion::current;
  }
  return wanted;
}

/// The names in a script, of variables among others: arithmetic reads them without a `$`.
std::vector<std::string> names_in(std::string_view script) {
  constexpr std::string_view characters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
  std::set<std::string> names;
  for (std::size_t at = script.find_first_of(characters); at < script.size();) {
    std::size_t const end = std::min(script.find_first_not_of(characters, at), script.size());
    names.emplace(script.substr(at, end - at));
    at = script.find_first_of(characters, end);
  }
  return {names.begin(), names.end()};
}

/// Notes each --variable whose name stands nowhere in the script, and that no program reads.
void note_idle_variables(CommandLine const& line, std::string_view script, LaunchCommand& launch) {
  std::vector<std::string> const names = names_in(script);
  for (auto const& [name, value] : variables_of(line)) {
    bool const is_read = std::ranges::binary_search(names, name) || name == "WORLD_SIZE" ||
                         LaunchEnvironment{}.set(name, value);
    if (is_read) continue;
    launch.notes.push_back("--variable " + printable(name) + ": the script never reads it" +
                           hint_of(nearest_word(name, names)));
  }
}

/// Notes that --world-size is not what the script starts, and derives other values from.
void note_world_size(CommandLine const& line, LaunchCommand& launch) {
  if (!line.has("world-size") || !launch.world_size) return;
  int const asked = line.whole_number("world-size", 1, std::numeric_limits<int>::max());
  if (asked == *launch.world_size) return;
  launch.notes.push_back("--world-size " + std::to_string(asked) + ": the script starts " +
                         std::to_string(*launch.world_size) +
                         " ranks, and what it derives from that, such as a batch, stays; "
                         "--variable sets the numbers of its nodes and GPUs");
}

/// Reads the flags. What is wrong with them may come from what the notes say.
MegatronImport import_with_notes(LaunchCommand const& launch,
                                 std::string const& origin,
                                 MegatronOptions const& wanted) {
  try {
    return import_megatron(launch.arguments, origin, wanted);
  } catch (ConfigError const&) {
    for (std::string const& note : launch.notes) std::cerr << "note: " << note << '\n';
    throw;
  }
}

/// The launch command of the script or the settings of the YAML file, if one is named, with the
/// flags of the command line after it.
LaunchCommand launch_of(CommandLine const& line,
                        std::vector<ShellWord> const& flags,
                        std::vector<Omission>& left_out) {
  LaunchCommand launch = split_launch(flags);
  std::vector<ShellWord> settings;
  for (std::string const& file : line.values_of("yaml")) {
    LaunchCommand const read = read_settings_file(file, variables_of(line), left_out);
    launch.environment.add(read.environment);
    settings.insert(settings.end(), read.arguments.begin(), read.arguments.end());
    launch.notes.insert(launch.notes.end(), read.notes.begin(), read.notes.end());
    if (launch.program.empty()) launch.program = read.program;
  }
  ShellWords const defaults = defaults_of(launch.program);
  settings.insert(settings.begin(), defaults.begin(), defaults.end());
  launch.arguments.insert(launch.arguments.begin(), settings.begin(), settings.end());
  if (!line.has("script")) return launch;
  std::string const& file = line.value("script");
  Diagnostics diagnostics;
  auto const variables = variables_of(line);
  std::string const text = read_text_file(file, "a launch script");
  LaunchCommand script = read_launch_script(text, file, variables, diagnostics, line.arguments());
  diagnostics.throw_if_any();
  if (!script.program.empty()) {
    script.notes.push_back("read as a command of " + script.program);
    ShellWords const own = flags_of_command(script.arguments, file, left_out);
    script.arguments = defaults_of(script.program);
    script.arguments.insert(script.arguments.end(), own.begin(), own.end());
  }
  note_idle_variables(line, text, script);
  note_world_size(line, script);
  script.arguments.insert(script.arguments.end(), launch.arguments.begin(), launch.arguments.end());
  if (launch.world_size) script.world_size = launch.world_size;
  script.environment.add(launch.environment);
  return script;
}

Command huggingface_import() {
  return {
      .name = "huggingface",
      .introduction = R"(usage: stagecraft import huggingface config.json [options]

Makes a model file of the config.json of a model of Hugging Face's transformers.
)",
      .examples =
          R"(  stagecraft import huggingface Llama-3.1-8B/config.json --sequence 8192 -o llama3.yaml
  stagecraft import huggingface Mistral-7B-v0.1/config.json --ignore sliding_window
)",
      .options = joined_options(
          {{{.name = "sequence",
             .letter = 's',
             .value = Value::text("N"),
             .description =
                 "tokens per training sequence; default: the longest that the file names"},
            {.name = "attention",
             .value = Value::word_of<Attention>(),
             .description = "flash (default) or unfused, which the file does not say"},
            {.name = "precision",
             .value = Value::word_of<Precision>(),
             .description = "fp16, bf16, fp32 or fp64; default: the file's torch_dtype"},
            {.name = "predicted-tokens",
             .description = "with the modules of multi-token prediction that the file names "
                            "(num_nextn_predict_layers); default: without them"}},
           import_output_options()}),
      .argument = Value::file("config.json"),
      .run = run_huggingface_import};
}

Command megatron_import() {
  return {
      .name = "megatron",
      .introduction = R"(usage: stagecraft import megatron [options] [-- FLAGS...]
       stagecraft import megatron --script FILE [options] [ARGUMENT...] [-- FLAGS...]
       stagecraft import megatron --yaml FILE [options] [-- FLAGS...]

Makes a run file of the flags of Megatron-LM's pretrain_gpt.py: those after --, or those of a launch
script, or both (the ones after -- win). Words before a program that ends in .py belong to the
launcher, which says how many ranks there are. ARGUMENTs are those of the script: its $1, $2, ...
--yaml reads a run file of Primus, Megatron-Bridge, ms-swift or verl, which has the flags' names
with underscores; after -- they may be written so too, as name=value. A script may start `megatron
sft` of ms-swift or verl.trainer.main_ppo. Where a checkpoint says the model, --model does.

A flag that is not modelled is left out, with a line on standard error if it changes memory or time.
)",
      .examples =
          R"(  stagecraft import megatron --script examples/gpt3/train_gpt3_175b_distributed.sh \
      --world-size 128 --system configs/systems/selene-a100.yaml -o gpt3.yaml
  stagecraft import megatron --world-size 8 -- --num-layers 24 --hidden-size 1024 \
      --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 \
      --micro-batch-size 4 --global-batch-size 16 --fp16 --tensor-model-parallel-size 2
)",
      .options = joined_options(
          {{{.name = "script",
             .value = Value::file("FILE"),
             .description = "a shell script that starts training"},
            {.name = "yaml",
             .value = Value::file("FILE"),
             .may_repeat = true,
             .description = "a run file with the flags' names, with underscores; of several the "
                            "last wins"},
            {.name = "variable",
             .value = Value::text("NAME=VALUE"),
             .may_repeat = true,
             .description = "a variable that the script expects to be set; may be repeated"},
            {.name = "model",
             .value = model_value("FILE"),
             .description = "the model of the checkpoint that the run starts from, for what no "
                            "flag says: a name of configs/models, a model file or a config.json"},
            {.name = "system",
             .value = system_value("FILE"),
             .description = "the system file that the run names; default: the paper's, Selene"},
            {.name = "world-size",
             .value = Value::text("N"),
             .description = "number of ranks of the job; default: the launcher's"},
            {.name = "megatron",
             .value = Value::word({"2022", "current"}),
             .description =
                 "2022 or current: the version whose defaults hold; default: guessed from "
                 "the flags"}},
           import_output_options()}),
      .argument = Value::text("ARGUMENT"),
      .has_rest = true,
      .run = run_megatron_import};
}

/// Leaves out a recipe that the accelerator of the system does not have.
void leave_out_recipe(MegatronImport& import, std::string const& system) {
  LowPrecision& low = import.config.low_precision;
  RecipeTraits const* const recipe = find_recipe(low.recipe);
  if (recipe == nullptr) return;
  Accelerator const accelerator = load_system_file(system).accelerator;
  if (has_recipe(accelerator, *recipe)) return;
  low = {};
  bool const is_of_4 = element_bits(recipe->elements) == 4;
  import.left_out.push_back({.name = is_of_4 ? "--fp4-recipe" : "--fp8-recipe",
                             .value = std::string{name_of(recipe->recipe)},
                             .effect = OmittedEffect::large,
                             .direction = "less time",
                             .consequence = "modelled instead: matrix products in 16 bits, as " +
                                            accelerator.name + " has none of these in " +
                                            (is_of_4 ? "4 bits" : "8 bits")});
}

}  // namespace

ImportedFile import_huggingface_as_asked(CommandLine const& line) {
  std::vector<std::string> const& files = line.arguments();
  if (files.size() != 1) {
    throw CommandLineError{"FILE", file_count(files.size()), "one config.json"};
  }
  if (line.has("output")) {
    check_output("--output (-o)", line.value("output"), OutputKind::model, {files.front()});
  }
  HuggingfaceOptions wanted{.ignore = ignored_names(line), .strictness = strictness_of(line)};
  if (line.has("sequence")) {
    wanted.sequence = line.whole_number("sequence", 1, 1 << 24);
  }
  if (line.has("attention")) {
    wanted.attention = line.word<Attention>("attention");
  }
  if (line.has("precision")) {
    wanted.precision = line.word<Precision>("precision");
  }
  wanted.predicted_tokens = line.has("predicted-tokens");
  HuggingfaceImport const import = import_huggingface(files.front(), wanted);
  return {to_model_file(import, files.front()), import.notes, to_json(import.model),
          import.left_out};
}

ImportedFile import_megatron_as_asked(CommandLine const& line) {
  std::vector<ShellWord> flags;
  for (std::string const& word : line.rest()) flags.push_back({word, 0, 0});
  if (!line.arguments().empty() && !line.has("script")) {
    throw CommandLineError{"", "'" + line.arguments().front() + "'",
                           "--script before a script's arguments, or flags after --"};
  }
  bool const has_file = line.has("script") || line.has("yaml");
  if (flags.empty() && !has_file) {
    throw CommandLineError{"", "neither --script nor flags", "flags after --, or a script"};
  }
  if (line.has("script") && line.has("yaml")) {
    throw CommandLineError{"--yaml", "--script beside it", "one of the two"};
  }
  std::string const origin = line.has("script") ? line.value("script")
                             : line.has("yaml") ? line.values_of("yaml").back()
                                                : "command line";
  if (line.has("output")) {
    check_output("--output (-o)", line.value("output"), OutputKind::run,
                 {line.find("script").value_or(""), line.find("system").value_or("")});
    for (std::string const& file : line.values_of("yaml")) {
      check_output("--output (-o)", line.value("output"), OutputKind::run, {file});
    }
  }
  std::vector<Omission> left_out;
  LaunchCommand launch = launch_of(line, flags, left_out);
  MegatronOptions wanted = megatron_options(line);
  if (line.has("model")) wanted.model = model_on_line(line, launch.notes, left_out);
  wanted.environment = launch.environment;
  wanted.doubts = launch.doubts;
  if (!wanted.world_size) wanted.world_size = launch.world_size;
  MegatronImport import = import_with_notes(launch, origin, wanted);
  import.notes.insert(import.notes.begin(), launch.notes.begin(), launch.notes.end());

  std::string remark;
  std::string const system = system_path(line, remark);
  if (!remark.empty()) import.notes.push_back(remark);
  if (!line.has("strict")) leave_out_recipe(import, system);
  std::string const text = to_run_file(import, system, origin, remark);
  // Checks the run against the system, for example whether it has a peak in the run's precision.
  RunConfig const run = parse_imported_run(text, origin);
  for (std::string const& warning : run.warnings) import.notes.push_back(warning);
  import.left_out.insert(import.left_out.end(), left_out.begin(), left_out.end());
  return {text, std::move(import.notes), run_sections(import, system), std::move(import.left_out)};
}

Command import_command() {
  return {.name = "import",
          .summary = "a model, run or system file from what other programs read or write",
          .introduction = R"(usage: stagecraft import huggingface config.json [options]
       stagecraft import megatron [options] [-- FLAGS...]
       stagecraft import deepspeed CONFIG.json --model M --world-size N [options]
       stagecraft import accelerate CONFIG.yaml --model M --micro-batch N [options]
       stagecraft import torchtitan CONFIG.toml --world-size N [options]
       stagecraft import nccl-tests LOG... --system BASE -o SYSTEM.yaml [options]

Makes a model file of a Hugging Face config.json, a run file of Megatron-LM's flags or of a framework's
configuration, or a system file of measured collectives. What is not modelled is left out, with a line on standard error that
says which way and how much it matters; with --strict it is an error unless --ignore names it. What
is approximated or assumed is listed on standard error.

stagecraft import huggingface --help, and likewise the others, say more.
)",
          .subcommands = {huggingface_import(), megatron_import(), framework_import("deepspeed"),
                          framework_import("accelerate"), framework_import("torchtitan"),
                          nccl_tests_import()},
          .subcommand_is = "source"};
}

}  // namespace stagecraft
