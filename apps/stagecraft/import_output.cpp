#include "apps/stagecraft/import_output.hpp"

#include <filesystem>
#include <iostream>
#include <memory>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/run/named_file.hpp"
#include "libsim/units/split_text.hpp"

namespace stagecraft {
namespace {

void print_notes(std::vector<std::string> const& notes) {
  for (std::string const& note : notes) std::cerr << "note: " << note << '\n';
}

/// Prints a line for all that is left out and matters, and one for the rest if the user asks.
void print_omissions(CommandLine const& line, std::vector<Omission> const& omissions) {
  std::vector<std::string> idle;
  for (Omission const& omission : omissions) {
    if (omission.effect == OmittedEffect::none) {
      idle.push_back(omission.name);
    } else if (!omission.is_asked) {
      std::cerr << text_of(omission) << '\n';
    }
  }
  bool const is_asked = line.has("verbose") || line.has("strict");
  if (is_asked && !idle.empty()) {
    std::cerr << "note: without effect on memory and time: " << joined(idle) << '\n';
  }
}

nlohmann::ordered_json to_json(ImportedFile const& imported) {
  auto left_out = nlohmann::ordered_json::array();
  for (Omission const& omission : imported.left_out) {
    left_out.push_back({{"name", omission.name},
                        {"value", omission.value},
                        {"effect", name_of(omission.effect)},
                        {"direction", omission.direction}});
  }
  return {{"schema", "stagecraft.import/1"}, {"config", imported.content}, {"left_out", left_out}};
}

}  // namespace

std::vector<Option> import_output_options() {
  return {{.name = "output",
           .letter = 'o',
           .value = Value::file("FILE"),
           .description = "write there instead of standard output"},
          {.name = "ignore",
           .value = Value::text("NAME[,NAME]"),
           .may_repeat = true,
           .description = "ignore these keys or flags, although they change the model or the run"},
          {.name = "strict",
           .description = "refuse what changes memory or time and is not modelled, and what is not "
                          "known, unless --ignore names it"},
          {.name = "verbose",
           .description = "list also what is left out because it changes neither memory nor time"},
          {.name = "json", .description = "print the file's content and what is left out as JSON"}};
}

std::vector<std::string> ignored_names(CommandLine const& line) {
  std::vector<std::string> names;
  for (std::string const& list : line.values_of("ignore")) {
    for (std::string_view const name : split_text(list, ",")) {
      if (!name.empty()) names.emplace_back(name);
    }
  }
  return names;
}

Strictness strictness_of(CommandLine const& line) {
  return line.has("strict") ? Strictness::strict : Strictness::lenient;
}

std::string system_path(CommandLine const& line, std::string& remark) {
  if (!line.has("system")) {
    remark =
        "no --system: the paper's, selene-a100; --system names yours (a file, or a name of "
        "configs/systems)";
    return "selene-a100";
  }
  std::string const& given = line.value("system");
  std::filesystem::path const file = named_file(given, "systems", {});
  // A name, or a misspelt one, whose message lists the names.
  if (file != std::filesystem::path{given} || !std::filesystem::exists(file)) return given;
  return std::filesystem::absolute(file).lexically_normal().string();
}

RunConfig parse_imported_run(std::string const& text, std::string const& origin) {
  std::string const name = "the imported run";
  try {
    return parse_run_config(text, name, {});
  } catch (ConfigError const& error) {
    std::vector<Problem> problems = error.problems();
    for (Problem& problem : problems) {
      // The lines of a file that is not written yet say nothing.
      bool const is_of_run = problem.place.origin && *problem.place.origin == name;
      if (is_of_run) problem.place = {std::make_shared<std::string const>(origin)};
    }
    throw ConfigError{problems};
  }
}

int write_import(CommandLine const& line, OutputKind kind, ImportedFile const& imported) {
  print_notes(imported.notes);
  print_omissions(line, imported.left_out);
  if (line.has("output")) {
    write_output(line.value("output"), origin_line(kind, "import") + imported.text);
  }
  if (line.has("json")) {
    std::cout << to_json(imported).dump(1) << '\n';
  } else if (!line.has("output")) {
    std::cout << imported.text;
  }
  return 0;
}

}  // namespace stagecraft
