#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/program/command_line.hpp"
#include "apps/program/file_count.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/key_listing.hpp"
#include "apps/stagecraft/terminal.hpp"
#include "libsim/config/optional_json.hpp"
#include "libsim/hardware/key_texts.hpp"
#include "libsim/hardware/provenance.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/run/config_files.hpp"

namespace stagecraft {

namespace {

using Json = nlohmann::ordered_json;

Json to_json(std::vector<ConstantRow> const& rows) {
  return list_of(rows, [](ConstantRow const& row) -> Json {
    return {{"key", row.key},
            {"value", row.value},
            {"unit", row.unit},
            {"source", row.source},
            {"fitted", text_or_null(row.fitted)}};
  });
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

/// The full stop that a text lacks before another sentence.
std::string stop_of(std::string const& text) { return text.ends_with('.') ? "" : "."; }

/// A table whose sources, and measured tables, which are longer than any line, follow it.
std::string to_text(std::string const& title, std::vector<ConstantRow> const& rows, int width) {
  constexpr std::size_t longest_value = 30;
  TextTable table{{{"constant", Align::left},
                   {"value", Align::right},
                   {"unit", Align::left},
                   {"fitted", Align::left},
                   {"source", Align::left}}};
  NoteList sources;
  std::string long_values;
  for (ConstantRow const& row : rows) {
    bool const is_fitted = !row.fitted.empty();
    bool const is_long = row.value.size() > longest_value;
    table.add_row({row.key, is_long ? "below" : row.value, row.unit, is_fitted ? "yes" : "no",
                   sources.mark_of(is_fitted ? row.source + stop_of(row.source) + " Fitted " +
                                                   row.fitted + "."
                                             : row.source)});
    if (is_long) long_values += wrapped(row.key + ": " + row.value, width, 2);
  }
  return title + "\n" + table.text() + "\n" + (long_values.empty() ? "" : long_values + "\n") +
         sources.text(width);
}

/// The one file, or name, that a command is about.
std::string const& subject(CommandLine const& line, std::string const& what) {
  std::vector<std::string> const& files = line.arguments();
  if (files.size() != 1) {
    throw CommandLineError{"FILE", file_count(files.size()), "one " + what + " file, or a name"};
  }
  return files.front();
}

int run_system(CommandLine const& line) {
  if (line.has("keys")) return print_keys(line, system_keys_schema, system_keys());
  System const system = load_system_file(subject(line, "system"));
  std::vector<ConstantRow> const rows = list_constants(system);
  if (line.has("json")) {
    Json const document{{"schema", system_schema},
                        {"name", system.name},
                        {"validated", system.validated},
                        {"constants", to_json(rows)}};
    std::cout << document.dump(1) << '\n';
    return 0;
  }
  std::string const title =
      system.name + (system.validated ? "" : ", not validated against measurements");
  std::cout << to_text(title, rows, standard_output_style().width);
  return 0;
}

int run_software(CommandLine const& line) {
  if (line.has("keys")) return print_keys(line, software_keys_schema, software_keys());
  Software const software = load_software_file(subject(line, "software"));
  std::vector<ConstantRow> const rows = list_constants(software);
  if (line.has("json")) {
    Json const document{
        {"schema", software_schema}, {"name", software.name}, {"constants", to_json(rows)}};
    std::cout << document.dump(1) << '\n';
    return 0;
  }
  std::cout << to_text(software.name, rows, standard_output_style().width);
  return 0;
}

std::vector<Option> listing_options() {
  return {{.name = "keys", .description = "explain every key of such a file, without a file"},
          json_option()};
}

}  // namespace

Command system_command() {
  return {.name = "system",
          .summary = "the constants of a system, each with its source",
          .introduction = R"(usage: stagecraft system FILE|NAME [options]
       stagecraft system --keys

Lists every constant of a system: its value and unit, where it comes from, and whether it was
fitted, and on what. With --keys, explains every key that a system file can have.
)",
          .examples = R"(  stagecraft system selene-a100
  stagecraft system configs/systems/h200.yaml --json
  stagecraft system --keys
)",
          .options = listing_options(),
          .argument = system_value("SYSTEM.yaml"),
          .run = run_system};
}

Command software_command() {
  return {.name = "software",
          .summary = "the constants of a software stack, each with its source",
          .introduction = R"(usage: stagecraft software FILE|NAME [options]
       stagecraft software --keys

Lists the constants that a software stack gives, as `stagecraft system` does for a machine; those
that it leaves out are neutral. With --keys, explains every key that a software file can have.
)",
          .examples = R"(  stagecraft software nanotron
  stagecraft software configs/software/megatron-2022.yaml --json
  stagecraft software --keys
)",
          .options = listing_options(),
          .argument = software_value("SOFTWARE.yaml"),
          .run = run_software};
}

}  // namespace stagecraft
