#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/program/command_line.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/terminal.hpp"
#include "libsim/hardware/provenance.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/report/wrapped_text.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {

namespace {

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

/// Numbers the texts that constants share, from 1.
class NoteList {
 public:
  std::string mark_of(std::string const& note) {
    auto const known = std::find(notes_.begin(), notes_.end(), note);
    if (known == notes_.end()) {
      notes_.push_back(note);
      return mark(notes_.size());
    }
    return mark(static_cast<std::size_t>(known - notes_.begin()) + 1);
  }

  std::string text(int width) const {
    std::string text;
    for (std::size_t i = 0; i < notes_.size(); ++i) {
      text += wrapped(mark(i + 1) + " " + notes_[i], width, 4);
    }
    return text;
  }

 private:
  static std::string mark(std::size_t number) { return "[" + std::to_string(number) + "]"; }

  std::vector<std::string> notes_;
};

/// A table whose sources, and measured tables, which are longer than any line, follow it.
std::string to_text(System const& system, int width) {
  constexpr std::size_t longest_value = 30;
  TextTable table{{{"constant", Align::left},
                   {"value", Align::right},
                   {"unit", Align::left},
                   {"fitted", Align::left},
                   {"source", Align::left}}};
  NoteList sources;
  std::string long_values;
  for (ConstantRow const& row : list_constants(system)) {
    bool const is_fitted = !row.fitted.empty();
    bool const is_long = row.value.size() > longest_value;
    table.add_row({row.key, is_long ? "below" : row.value, row.unit, is_fitted ? "yes" : "no",
                   sources.mark_of(row.source + (is_fitted ? " Fitted " + row.fitted + "." : ""))});
    if (is_long) long_values += wrapped(row.key + ": " + row.value, width, 2);
  }
  return system.name + (system.validated ? "" : ", not validated against measurements") + "\n" +
         table.text() + "\n" + (long_values.empty() ? "" : long_values + "\n") +
         sources.text(width);
}

int run_system(CommandLine const& line) {
  std::vector<std::string> const& files = line.arguments();
  if (files.size() != 1) {
    throw CommandLineError{"FILE: found " + std::to_string(files.size()) +
                           " files; accepted: one system file"};
  }
  System const system = load_system_file(files.front());
  std::cout << (line.has("json") ? to_json(system).dump(1) + "\n"
                                 : to_text(system, standard_output_style().width));
  return 0;
}

}  // namespace

Command system_command() {
  return {.name = "system",
          .summary = "the constants of a system, each with its source",
          .introduction = R"(usage: stagecraft system FILE [options]

Lists every constant of a system: its value and unit, where it comes from, and whether it was
fitted, and on what.
)",
          .examples = R"(  stagecraft system configs/systems/selene-a100.yaml
  stagecraft system configs/systems/h200.yaml --json
)",
          .options = {{.name = "json", .description = "print one JSON document"}},
          .argument = Value::file("SYSTEM.yaml"),
          .run = run_system};
}

}  // namespace stagecraft
