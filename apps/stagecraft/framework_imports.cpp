#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <utility>

#include "apps/program/file_count.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/import_output.hpp"
#include "libsim/import/frameworks/framework_import.hpp"
#include "libsim/import/text_file.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/run/foreign_format.hpp"
#include "libsim/run/named_file.hpp"

namespace stagecraft {
namespace {

/// What the help says of a framework's import.
struct FrameworkHelp {
  Framework const* framework;
  std::string_view file;  ///< as usage has it
  std::string_view text;  ///< what the file does not say
  std::string_view examples;
};

constexpr std::array<FrameworkHelp, 3> helps{{
    {&deepspeed_framework, "CONFIG.json",
     R"(Values that are `auto` are those of transformers' Trainer: --micro-batch is its
per_device_train_batch_size, --accumulation its gradient_accumulation_steps. Neither kernels nor
recompute are in the file, because the model has them.
)",
     R"(  stagecraft import deepspeed ds_config.json --model llama2-7b --world-size 16 -o run.yaml
  stagecraft import deepspeed ds_config.json --model llama2-7b --world-size 16 \
      -- zero_optimization.stage=2
)"},
    {&accelerate_framework, "CONFIG.yaml",
     R"(The file, as `accelerate config` writes it, does not say how many sequences a rank has: --micro-batch
and --accumulation do. num_processes says how many ranks there are unless --world-size does.
)",
     R"(  stagecraft import accelerate fsdp.yaml --model llama3-8b --micro-batch 2 -o run.yaml
)"},
    {&torchtitan_framework, "CONFIG.toml",
     R"(The file is that of torchtitan's versions up to February 2026. Without --model its model.name and
model.flavor say which model it is.
)",
     R"(  stagecraft import torchtitan llama3_8b.toml --world-size 64 --system hgx-a100-80 -o run.yaml
  stagecraft import torchtitan llama3_8b.toml --world-size 64 \
      -- parallelism.tensor_parallel_degree=8 training.local_batch_size=2
)"},
}};

FrameworkHelp const& help_of(std::string_view name) {
  return *std::ranges::find(helps, name,
                            [](FrameworkHelp const& help) { return help.framework->name; });
}

std::optional<std::int64_t> count_of(CommandLine const& line, std::string const& option) {
  if (!line.has(option)) return std::nullopt;
  return line.whole_number(option, 1, std::numeric_limits<int>::max());
}

/// A name of configs/models, or a path that is valid from any folder.
std::string model_path(std::string const& given) {
  std::filesystem::path const file = named_file(given, "models", {});
  if (file != std::filesystem::path{given} || !std::filesystem::exists(file)) return given;
  return std::filesystem::absolute(file).lexically_normal().string();
}

/// Reads the run, which checks it. Problems of what the command line says are the options'.
RunConfig read_imported(std::string const& text, std::string const& file) {
  try {
    return parse_imported_run(text, file);
  } catch (ConfigError const& error) {
    std::vector<Problem> problems = error.problems();
    for (Problem& problem : problems) {
      for (auto const& [key, option] :
           {std::pair{"model.base", "--model"}, {"system", "--system"}, {"model", "--model"}}) {
        if (problem.key != key) continue;
        problem.key = option;
        problem.place = {};
      }
    }
    throw ConfigError{problems};
  }
}

}  // namespace

ImportedFile import_framework_as_asked(std::string_view name, CommandLine const& line) {
  FrameworkHelp const& help = help_of(name);
  std::vector<std::string> const& files = line.arguments();
  if (files.size() != 1) {
    throw CommandLineError{"FILE", file_count(files.size()), "one " + std::string{help.file}};
  }
  std::string const& file = files.front();
  if (line.has("output")) {
    check_output("--output (-o)", line.value("output"), OutputKind::run, {file});
  }
  FrameworkOptions wanted{.world_size = count_of(line, "world-size"),
                          .micro_batch = count_of(line, "micro-batch"),
                          .accumulation = count_of(line, "accumulation"),
                          .sequence = count_of(line, "sequence")};
  std::string remark;
  wanted.system = system_path(line, remark);
  if (line.has("model")) wanted.model = model_path(line.value("model"));
  Omissions omissions{ignored_names(line), strictness_of(line)};
  std::string const what = "a configuration of " + std::string{help.framework->title};
  std::string const text = read_text_file(file, what);
  auto const format = foreign_format(text);
  if (format && format->name != what) {
    throw CommandLineError{"FILE", printable(file) + ", " + text_of(*format), what};
  }
  FrameworkImport import =
      import_framework(*help.framework, text, file, line.rest(), wanted, omissions);
  if (!remark.empty()) import.notes.push_back(remark);
  RunConfig const run = read_imported(import.text, file);
  import.notes.insert(import.notes.end(), run.warnings.begin(), run.warnings.end());
  return {import.text, std::move(import.notes), std::move(import.sections),
          std::move(import.left_out)};
}

Command framework_import(std::string_view name) {
  FrameworkHelp const& help = help_of(name);
  std::string const title{help.framework->title};
  return {
      .name = std::string{name},
      .introduction =
          "usage: stagecraft import " + std::string{name} + " " + std::string{help.file} +
          " [options] [-- KEY=VALUE...]\n\nMakes a run file of " + title + "'s configuration. " +
          std::string{help.text} +
          "KEY=VALUE pairs after -- are as if the file said so.\n\n"
          "What is not modelled is left out, with a line on standard error if it changes "
          "memory or time.\n",
      .examples = std::string{help.examples},
      .options = joined_options(
          {{{.name = "model",
             .value = model_value("FILE"),
             .description =
                 "a name of configs/models, or a model file, such as `import huggingface` "
                 "writes"},
            {.name = "world-size",
             .value = Value::text("N"),
             .description = "number of ranks of the job"},
            {.name = "micro-batch",
             .value = Value::text("N"),
             .description = "sequences of a rank in a microbatch; default: the file's"},
            {.name = "accumulation",
             .value = Value::text("N"),
             .description = "microbatches of an iteration; default: the file's"},
            {.name = "sequence",
             .letter = 's',
             .value = Value::text("N"),
             .description = "tokens per sequence; default: the file's, else the model's"},
            {.name = "system",
             .value = system_value("FILE"),
             .description = "the system file that the run names; default: the paper's, Selene"}},
           import_output_options()}),
      .argument = Value::file(std::string{help.file}),
      .has_rest = true,
      .run = [name](CommandLine const& line) {
        return write_import(line, OutputKind::run, import_framework_as_asked(name, line));
      }};
}

}  // namespace stagecraft
