#include "apps/stagecraft/system_command.hpp"

#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/stagecraft/command_line.hpp"
#include "libsim/hardware/provenance.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

constexpr char const* introduction =
    "usage: stagecraft system FILE [options]\n\n"
    "Lists every constant of a system: its value and unit, where it comes from, and whether it "
    "was\n"
    "fitted, and on what.\n\n";

constexpr char const* examples =
    "\nexamples:\n"
    "  stagecraft system configs/systems/selene-a100.yaml\n"
    "  stagecraft system configs/systems/h200.yaml --json\n";

nlohmann::ordered_json to_json(System const& system) {
  nlohmann::ordered_json constants = nlohmann::ordered_json::array();
  for (ConstantRow const& row : list_constants(system)) {
    constants.push_back(
        {{"key", row.key},
         {"value", row.value},
         {"unit", row.unit},
         {"source", row.source},
         {"fitted", row.fitted.empty() ? nlohmann::json(nullptr) : nlohmann::json(row.fitted)}});
  }
  return {{"schema", "stagecraft.system/1"},
          {"name", system.name},
          {"validated", system.validated},
          {"constants", constants}};
}

std::string to_text(System const& system) {
  TextTable table{{{"constant", Align::left},
                   {"value", Align::right},
                   {"unit", Align::left},
                   {"fitted", Align::left},
                   {"source", Align::left}}};
  for (ConstantRow const& row : list_constants(system)) {
    table.add_row(
        {row.key, row.value, row.unit, row.fitted.empty() ? "no" : row.fitted, row.source});
  }
  return system.name + (system.validated ? "" : ", not validated against measurements") + "\n" +
         table.text();
}

}  // namespace

int system_command(std::vector<std::string> const& arguments) {
  po::options_description options{"options"};
  auto add = options.add_options();
  add("json", "print one JSON document");
  add("help,h", "print this");
  std::vector<std::string> files;
  po::variables_map const values = parse_options(arguments, options, files, "SYSTEM.yaml");
  if (values.count("help") > 0) {
    std::cout << introduction << options << examples;
    return 0;
  }
  if (files.size() != 1) {
    throw CommandLineError{"FILE: found " + std::to_string(files.size()) +
                           " files; accepted: one system file"};
  }
  System const system = load_system_file(files.front());
  std::cout << (values.count("json") > 0 ? to_json(system).dump(1) + "\n" : to_text(system));
  return 0;
}

}  // namespace stagecraft
