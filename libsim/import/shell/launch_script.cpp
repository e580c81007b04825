#include "libsim/import/shell/launch_script.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "libsim/import/shell/shell_expansion.hpp"
#include "libsim/import/shell/shell_interpreter.hpp"
#include "libsim/import/shell/shell_launch_words.hpp"
#include "libsim/import/shell/shell_tokens.hpp"
#include "libsim/run/foreign_format.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

std::optional<std::int64_t> count_of(std::string_view text) {
  auto const count = parse_number<std::int64_t>(text);
  return count && *count > 0 ? count : std::nullopt;
}

/// The value of one of the options `names`, written as `--name N` or `--name=N`.
std::optional<std::int64_t> option_value(ShellWords const& words,
                                         std::initializer_list<std::string_view> names) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (std::string_view const name : names) {
      std::string_view const text = words[i].text;
      if (text == name && i + 1 < words.size()) {
        if (auto const count = count_of(words[i + 1].text)) return count;
      }
      if (text.rfind(name, 0) == 0 && text.size() > name.size() && text[name.size()] == '=') {
        return count_of(text.substr(name.size() + 1));
      }
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> product(std::optional<std::int64_t> a, std::optional<std::int64_t> b) {
  std::int64_t value = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &value)) return std::nullopt;
  return value;
}

/// The number of processes that the launcher starts.
std::optional<std::int64_t> launched(ShellWords const& words) {
  auto const per_node = option_value(
      words, {"--nproc_per_node", "--nproc-per-node", "--num_gpus", "trainer.n_gpus_per_node"});
  auto const nodes = option_value(words, {"--nnodes", "--num_nodes", "trainer.nnodes"});
  if (per_node) return product(per_node, nodes ? nodes : std::optional<std::int64_t>{1});
  return option_value(words, {"-np", "--ntasks", "--worker_num"});
}

/// The nodes, and the processes per node, of the `#SBATCH` lines.
struct Allocation {
  std::optional<std::int64_t> nodes, per_node;
  std::map<std::string, std::int64_t> variables;  ///< that Slurm sets for the script
};

/// The number of GPUs in `gpu:a100:4`, `a100:4` or `4`.
std::optional<std::int64_t> gpus_in(std::string_view text) {
  std::size_t const colon = text.rfind(':');
  return count_of(colon == std::string_view::npos ? text : text.substr(colon + 1));
}

Allocation allocation_of(std::vector<std::string> const& sbatch) {
  ShellWords words;
  for (std::string const& line : sbatch) {
    for (ShellWord const& word : expand({line, 0, 0}, {})) {
      for (ShellWord const& part : expand({word.text, 0, 0}, {})) words.push_back(part);
    }
    std::vector<std::string> ignored;
    for (ShellToken const& token : shell_tokens(line, ignored)) words.push_back(token.word);
  }
  Allocation allocation;
  allocation.nodes = option_value(words, {"--nodes", "-N"});
  for (ShellWord const& word : words) {
    for (std::string_view const option : {"--gpus-per-node=", "--gres=gpu"}) {
      if (word.text.starts_with(option)) {
        allocation.per_node = gpus_in(std::string_view{word.text}.substr(option.size()));
      }
    }
  }
  if (!allocation.per_node) allocation.per_node = option_value(words, {"--gpus-per-node"});
  auto const remember = [&](std::optional<std::int64_t> count,
                            std::initializer_list<char const*> names) {
    for (char const* const name : names) {
      if (count) allocation.variables[name] = *count;
    }
  };
  remember(allocation.nodes, {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
  remember(allocation.per_node, {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"});
  auto const tasks_per_node = option_value(words, {"--ntasks-per-node"});
  auto const tasks = option_value(words, {"--ntasks", "-n"});
  remember(tasks_per_node, {"SLURM_NTASKS_PER_NODE"});
  remember(tasks ? tasks : product(allocation.nodes, tasks_per_node),
           {"SLURM_NTASKS", "SLURM_NPROCS"});
  remember(option_value(words, {"--cpus-per-task", "-c"}), {"SLURM_CPUS_PER_TASK"});
  if (!allocation.per_node) allocation.per_node = tasks_per_node;
  return allocation;
}

/// Says which scripts one without flags reads or starts, and what it sets for them.
Problem handed_over(ScriptOutcome const& outcome,
                    ShellVariables const& before,
                    std::shared_ptr<std::string const> origin) {
  // A sourced script sets variables for the one that is started.
  auto const started = std::ranges::find(outcome.handed_to, false, &OtherScript::is_sourced);
  bool const is_any_started = started != outcome.handed_to.end();
  ShellWord const& first = (is_any_started ? *started : outcome.handed_to.front()).call;
  std::string scripts;
  for (OtherScript const& script : outcome.handed_to) {
    scripts += (scripts.empty() ? "" : ", ") + printable(script.call.text) + " (line " +
               std::to_string(script.call.line) + ")";
  }
  std::string variables;
  for (auto const& [name, variable] : outcome.variables) {
    if (variable.elements.size() != 1 || !is_name_character(name.front())) continue;
    std::string const& value = variable.elements.front().text;
    auto const known = before.find(name);
    bool const is_new = known == before.end() || known->second.elements.size() != 1 ||
                        known->second.elements.front().text != value;
    if (!is_new || value.empty() || is_unresolved(value)) continue;
    variables += " --variable " + shell_word(name + "=" + value);
  }
  return {Place{std::move(origin), first.line, first.column}, "",
          "no command with --num-layers, but other scripts: " + scripts,
          "the script that has the flags: stagecraft import megatron --script " +
              printable(first.text) + variables};
}

}  // namespace

bool LaunchEnvironment::set(std::string_view name, std::string_view value) {
  bool const is_allocator = name == "PYTORCH_CUDA_ALLOC_CONF" || name == "PYTORCH_ALLOC_CONF";
  if (!is_allocator && name != "CUBLAS_WORKSPACE_CONFIG") return false;
  (is_allocator ? allocator_settings : cublas_workspace) = value;
  return true;
}

void LaunchEnvironment::add(LaunchEnvironment const& other) {
  if (!other.allocator_settings.empty()) allocator_settings = other.allocator_settings;
  if (!other.cublas_workspace.empty()) cublas_workspace = other.cublas_workspace;
}

LaunchCommand split_launch(std::vector<ShellWord> const& words) {
  LaunchCommand launch;
  auto const is_program = [](ShellWord const& word) {
    return word.text.size() > 3 && word.text.compare(word.text.size() - 3, 3, ".py") == 0;
  };
  auto const first_flag = std::find_if(words.begin(), words.end(), [](ShellWord const& word) {
    return word.text == "--num-layers" || word.text.rfind("--num-layers=", 0) == 0;
  });
  // The value of a flag may end in .py too, but the program precedes the flags.
  auto const program = std::find_if(words.begin(), words.end(), is_program);
  auto const start = program < first_flag ? program + 1 : words.begin();
  launch.launcher.assign(words.begin(), start);
  launch.arguments.assign(start, words.end());
  launch.world_size = launched(launch.launcher);
  for (ShellWord const& word : launch.launcher) {
    std::string_view const text = word.text;
    std::size_t const end = text.find('=');
    if (end != std::string_view::npos) {
      launch.environment.set(text.substr(0, end), text.substr(end + 1));
    }
  }
  return launch;
}

LaunchCommand read_launch_script(std::string_view text,
                                 std::string const& origin,
                                 std::map<std::string, std::string> const& preset,
                                 Diagnostics& diagnostics,
                                 std::vector<std::string> const& arguments) {
  std::vector<std::string> sbatch;
  std::vector<ShellToken> const tokens = shell_tokens(text, sbatch);
  Allocation const allocation = allocation_of(sbatch);
  ShellVariables variables;
  for (auto const& [name, count] : allocation.variables) {
    variables[name] = {{{std::to_string(count), 0, 0}}};
  }
  ShellVariable& all = variables["@"];
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    all.elements.push_back({arguments[i], 0, 0});
    variables[std::to_string(i + 1)] = {{{arguments[i], 0, 0}}};
  }
  std::set<std::string, std::less<>> given;
  for (auto const& [name, value] : preset) {
    variables[name] = {{{value, 0, 0}}};
    given.insert(name);
  }
  ShellVariables const before = variables;
  ScriptOutcome outcome = follow_script(tokens, std::move(variables), given);
  ShellWords const& words = outcome.command.empty() ? outcome.flags_of_variable : outcome.command;
  if (words.empty() && !outcome.handed_to.empty()) {
    diagnostics.add(handed_over(outcome, before, std::make_shared<std::string const>(origin)));
    return {};
  }
  if (words.empty()) {
    std::string found = "no command with --num-layers";
    auto format = foreign_format(text);
    if (format && format->is_script) format.reset();
    if (format) found = text_of(*format);
    if (!format && nlohmann::json::accept(text)) found = "a JSON document";
    for (std::string const& note : outcome.notes) found += "; " + note;
    for (ScriptDoubt const& doubt : outcome.doubts) {
      found += "; line " + std::to_string(doubt.place.line) + ": " + doubt.note;
    }
    diagnostics.add({Place{std::make_shared<std::string const>(origin)}, "", std::move(found),
                     "a script that starts Megatron-LM with its flags"});
    return {};
  }
  LaunchCommand launch = split_launch(words);
  auto const count_in = [&](std::string const& name) {
    auto const variable = outcome.variables.find(name);
    bool const is_one =
        variable != outcome.variables.end() && variable->second.elements.size() == 1;
    return is_one ? count_of(variable->second.elements[0].text) : std::nullopt;
  };
  if (StartedProgram const started = started_program(words); !started.name.empty()) {
    auto const end = words.begin() + static_cast<std::ptrdiff_t>(started.end);
    launch.program = started.name;
    launch.launcher.assign(words.begin(), end);
    launch.arguments.assign(end, words.end());
    launch.world_size = launched(words);
    if (!launch.world_size) {
      launch.world_size = product(count_in("NPROC_PER_NODE"), count_in("NNODES").value_or(1));
    }
  }
  launch.notes = std::move(outcome.notes);
  launch.doubts = std::move(outcome.doubts);
  if (!launch.world_size) launch.world_size = count_in("WORLD_SIZE");
  if (!launch.world_size) launch.world_size = product(allocation.nodes, allocation.per_node);
  for (auto const& [name, variable] : outcome.variables) {
    if (variable.elements.size() != 1) continue;
    std::string const& value = variable.elements[0].text;
    if (!is_unresolved(value)) launch.environment.set(name, value);
  }
  return launch;
}

}  // namespace stagecraft
