#include "apps/program/run_options.hpp"

#include <iostream>
#include <utility>

#include "libsim/engine/store_window.hpp"
#include "libsim/hardware/provenance.hpp"

namespace stagecraft {

std::vector<Option> run_options() {
  return {{.name = "set",
           .value = Value::text("KEY=VALUE"),
           .may_repeat = true,
           .description =
               "override a key of the run file, e.g. --set parallel.tensor=4; may be repeated"},
          {.name = "print-config",
           .description = "print the effective configuration, which loads again, and stop"},
          {.name = "json", .description = "print one JSON document"}};
}

Value run_file() { return Value::file("CONFIG.yaml"); }

RunArguments read_run_arguments(CommandLine const& line) {
  std::vector<std::string> const& files = line.arguments();
  if (files.size() != 1) {
    throw CommandLineError{"CONFIG: found " + std::to_string(files.size()) +
                           " files; accepted: one run file"};
  }
  RunArguments result;
  result.path = files.front();
  result.overrides = line.values_of("set");
  result.config = load_run_config(result.path, result.overrides);
  result.as_read = result.config.training;
  // A plan does not depend on a system, so what depends on a system's memory is resolved here.
  result.config.training =
      resolve_store_windows(std::move(result.config.training), result.config.system);
  if (auto warning = validation_warning(result.config.system)) {
    result.config.warnings.push_back(std::move(*warning));
  }
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
