#include "apps/stagecraft/run_options.hpp"

#include <iostream>
#include <utility>

#include "apps/stagecraft/command_line.hpp"
#include "libsim/engine/store_window.hpp"
#include "libsim/hardware/provenance.hpp"

namespace stagecraft {

namespace po = boost::program_options;

void add_run_options(po::options_description& options) {
  auto add = options.add_options();
  add("set", po::value<std::vector<std::string>>()->composing()->value_name("KEY=VALUE"),
      "override a key of the run file, e.g. --set parallel.tensor=4; may be repeated");
  add("print-config", "print the effective configuration, which loads again, and stop");
  add("json", "print one JSON document");
  add("help,h", "print this");
}

RunArguments read_run_arguments(std::vector<std::string> const& arguments,
                                po::options_description const& options,
                                std::string const& introduction,
                                std::string const& examples) {
  RunArguments result;
  std::vector<std::string> positional;
  result.values = parse_options(arguments, options, positional, "CONFIG.yaml");
  if (result.values.count("help") > 0) {
    std::cout << introduction << options << examples;
    result.is_over = true;
    return result;
  }
  if (positional.size() != 1) {
    throw CommandLineError{"CONFIG: found " + std::to_string(positional.size()) +
                           " files; accepted: one run file"};
  }
  result.path = positional.front();
  if (result.values.count("set") > 0) {
    result.overrides = result.values["set"].as<std::vector<std::string>>();
  }
  result.config = load_run_config(result.path, result.overrides);
  result.as_read = result.config.training;
  // A plan is made for no system in particular: what depends on one's memory is settled here.
  result.config.training =
      resolve_store_windows(std::move(result.config.training), result.config.system);
  if (auto warning = validation_warning(result.config.system)) {
    result.config.warnings.push_back(std::move(*warning));
  }
  for (std::string const& warning : result.config.warnings) {
    std::cerr << "warning: " << warning << '\n';
  }
  if (result.values.count("print-config") > 0) {
    if (result.values.count("json") > 0) {
      std::cout << to_json(result.config).dump(1) << '\n';
    } else {
      std::cout << to_yaml(result.config);
    }
    result.is_over = true;
  }
  return result;
}

}  // namespace stagecraft
