#include <algorithm>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <system_error>

#include "apps/program/command_line.hpp"
#include "apps/program/output_paths.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/commands.hpp"
#include "libsim/config/did_you_mean.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/report/paper/executed_reproduction.hpp"
#include "libsim/report/paper/reproduce.hpp"
#include "libsim/report/paper/reproduction.hpp"
#include "libsim/run/paper_config_folder.hpp"

namespace stagecraft {

namespace {

std::vector<std::string> all_names() {
  std::vector<std::string_view> const known = reproducible();
  std::vector<std::string> names{known.begin(), known.end()};
  names.emplace_back("all");
  return names;
}

std::vector<std::string> chosen(std::vector<std::string> words) {
  std::vector<std::string_view> const known = reproducible();
  if (words.empty()) return {"table2", "table4", "table5"};
  if (std::find(words.begin(), words.end(), "all") != words.end()) {
    return {known.begin(), known.end()};
  }
  for (std::string const& word : words) {
    if (std::find(known.begin(), known.end(), word) != known.end()) continue;
    throw CommandLineError{"", "'" + word + "'", joined(all_names())};
  }
  return words;
}

/// Only tables 4 and 5 have executed numbers beside them.
void require_executable(std::vector<std::string> const& names) {
  bool const has_any = std::any_of(names.begin(), names.end(), [](std::string const& name) {
    return name == "table4" || name == "table5";
  });
  if (!has_any) {
    throw CommandLineError{"--executed", "with " + joined(names), "with table4, table5 or all"};
  }
}

void write_folder(std::filesystem::path const& folder, std::vector<Reproduction> const& all) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw std::runtime_error("could not create folder '" + folder.string() +
                             "': " + error.message());
  }
  for (Reproduction const& one : all) {
    check_output("--output", folder / (one.name + ".csv"), OutputKind::csv);
  }
  check_output("--output", folder / "reproduction.json", OutputKind::json);
  for (Reproduction const& one : all) write_output(folder / (one.name + ".csv"), to_csv(one));
  write_output(folder / "reproduction.json", to_json(all).dump(1) + "\n");
}

int run_reproduce(CommandLine const& line) {
  std::vector<std::string> const names = chosen(line.arguments());
  if (line.has("executed")) require_executable(names);
  std::vector<Reproduction> all;
  for (std::string const& what : names) {
    std::vector<Reproduction> const parts = reproduce(what, paper_config_folder());
    all.insert(all.end(), parts.begin(), parts.end());
  }
  if (line.has("executed")) {
    add_executed(all, ExecutedResults{line.value("executed")}, paper_config_folder());
  }
  if (line.has("json")) {
    std::cout << to_json(all).dump(1) << '\n';
  } else {
    for (std::size_t i = 0; i < all.size(); ++i)
      std::cout << (i == 0 ? "" : "\n") << to_text(all[i]);
  }
  if (line.has("output")) write_folder(line.value("output"), all);
  return 0;
}

}  // namespace

Command reproduce_command() {
  return {
      .name = "reproduce",
      .summary = "the paper's tables and figures, predicted beside published",
      .introduction =
          R"(usage: stagecraft reproduce [table2 table4 table5 headline figure1 figure7 figure8 figure9 appendix-c
                            | all] [options]

Predicts the tables and figures of Korthikanti et al. 2022 and prints them beside the published
values. Without a name: tables 2, 4 and 5.
)",
      .examples = R"(  stagecraft reproduce table5
  stagecraft reproduce all --output reproduction
  stagecraft reproduce table4 table5 --executed results
  stagecraft reproduce figure9 --json
)",
      .options = {{.name = "output",
                   .value = Value::folder(),
                   .description = "also write every table and figure as CSV, and all as "
                                  "reproduction.json, into this folder"},
                  {.name = "executed",
                   .value = Value::folder(),
                   .description =
                       "add executed runs to tables 4 and 5: the traces (*.h5) and results of "
                       "`stagecraft-exec measure layer --json` (*.json) in this folder, assigned "
                       "to rows by their plan; notes list files without a row"},
                  json_option()},
      .argument = Value::word(all_names()),
      .run = run_reproduce};
}

}  // namespace stagecraft
