#include "apps/program/run_options.hpp"

#include <algorithm>
#include <iostream>
#include <utility>

#include "apps/program/file_count.hpp"
#include "apps/program/shared_options.hpp"
#include "libsim/engine/ready_run.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/run/named_file.hpp"

namespace stagecraft {
namespace {

/// Says so if overrides of the layout change the number of accelerators that the run file has.
void note_other_size(RunArguments const& run) {
  bool const is_layout_set = std::ranges::any_of(
      run.overrides, [](std::string const& text) { return text.starts_with("parallel"); });
  if (!is_layout_set) return;
  try {
    int const before = world_size(load_run_config(run.path, {}).training.parallel);
    int const after = world_size(run.config.training.parallel);
    if (before == after) return;
    std::cerr << "note: " << after << (after == 1 ? " accelerator; " : " accelerators; ")
              << run.path << " has " << before << '\n';
  } catch (ConfigError const&) {
    return;  // the file alone is no run
  }
}

}  // namespace

std::vector<Option> run_options() {
  return {{.name = "set",
           .value = Value::text("KEY=VALUE"),
           .may_repeat = true,
           .description =
               "override a key of the run file, e.g. --set parallel.tensor=4; may be repeated"},
          {.name = "print-config",
           .description = "print the effective configuration, which loads again, and stop"},
          json_option()};
}

Value run_file() { return Value::file("CONFIG.yaml"); }

RunArguments read_run_arguments(CommandLine const& line) {
  std::vector<std::string> const& files = line.arguments();
  if (files.size() != 1) {
    throw CommandLineError{"CONFIG", file_count(files.size()), "one run file"};
  }
  RunArguments result;
  result.path = file_on_command_line(files.front(), run_folders()).string();
  result.overrides = line.values_of("set");
  result.config = load_run_config(result.path, result.overrides);
  result.as_read = result.config.training;
  result.config = ready_run(std::move(result.config));
  if (!line.has("json") && !line.has("print-config")) note_other_size(result);
  for (std::string const& warning : result.config.warnings) {
    std::cerr << "warning: " << warning << '\n';
  }
  if (line.has("print-config")) {
    if (line.has("json")) {
      std::cout << to_json(result.config).dump(1) << '\n';
    } else {
      std::cout << to_yaml(result.config);
    }
    result.is_over = true;
  }
  return result;
}

}  // namespace stagecraft
