#include "apps/stagecraft/reproduce_command.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <system_error>

#include "apps/stagecraft/command_line.hpp"
#include "libsim/config/did_you_mean.hpp"
#include "libsim/report/executed_reproduction.hpp"
#include "libsim/report/reproduction.hpp"
#include "libsim/run/paper_config_folder.hpp"
#include "libsim/trace/output_file.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

constexpr char const* introduction =
    "usage: stagecraft reproduce [table2 table4 table5 headline figure1 figure7 figure8 figure9 "
    "appendix-c\n"
    "                            | all] [options]\n\n"
    "Predicts the tables and figures of Korthikanti et al. 2022 and prints them beside the "
    "published\n"
    "values. Without a name: tables 2, 4 and 5.\n\n";

constexpr char const* examples =
    "\nexamples:\n"
    "  stagecraft reproduce table5\n"
    "  stagecraft reproduce all --output reproduction\n"
    "  stagecraft reproduce table4 table5 --executed results\n"
    "  stagecraft reproduce figure9 --json\n";

po::options_description describe_options() {
  po::options_description options{"options"};
  auto add = options.add_options();
  add("output", po::value<std::string>()->value_name("DIR"),
      "also write every table and figure as CSV, and all as reproduction.json, into this folder");
  add("executed", po::value<std::string>()->value_name("DIR"),
      "put what was executed beside tables 4 and 5: the traces (*.h5) and results of "
      "`stagecraft-exec "
      "measure layer --json` (*.json) in this folder, found by the plan that they are of; notes "
      "name what is in no row");
  add("json", "print one JSON document");
  add("help,h", "print this");
  return options;
}

std::string all_names(std::string const& separator) {
  std::string names;
  for (std::string_view const name : reproducible()) names.append(name).append(separator);
  return names.append("all");
}

std::vector<std::string> chosen(std::vector<std::string> words) {
  std::vector<std::string_view> const known = reproducible();
  if (words.empty()) return {"table2", "table4", "table5"};
  if (std::find(words.begin(), words.end(), "all") != words.end()) {
    return {known.begin(), known.end()};
  }
  for (std::string const& word : words) {
    if (std::find(known.begin(), known.end(), word) != known.end()) continue;
    throw CommandLineError{"found '" + word + "'; accepted: " + all_names(", ")};
  }
  return words;
}

/// Only tables 4 and 5 have executed numbers beside them.
void require_executable(std::vector<std::string> const& names) {
  bool const has_any = std::any_of(names.begin(), names.end(), [](std::string const& name) {
    return name == "table4" || name == "table5";
  });
  if (!has_any) {
    throw CommandLineError{"--executed: found with " + joined(names) +
                           "; accepted: with table4, table5 or all"};
  }
}

void write_folder(std::filesystem::path const& folder, std::vector<Reproduction> const& all) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw std::runtime_error("could not create folder '" + folder.string() +
                             "': " + error.message());
  }
  for (Reproduction const& one : all) write_output(folder / (one.name + ".csv"), to_csv(one));
  write_output(folder / "reproduction.json", to_json(all).dump(1) + "\n");
}

}  // namespace

int reproduce_command(std::vector<std::string> const& arguments) {
  po::options_description const options = describe_options();
  std::vector<std::string> words;
  po::variables_map const values = parse_options(arguments, options, words, all_names("|"));
  if (values.count("help") > 0) {
    std::cout << introduction << options << examples;
    return 0;
  }
  std::vector<std::string> const names = chosen(words);
  if (values.count("executed") > 0) require_executable(names);
  std::vector<Reproduction> all;
  for (std::string const& what : names) {
    std::vector<Reproduction> const parts = reproduce(what, paper_config_folder());
    all.insert(all.end(), parts.begin(), parts.end());
  }
  if (values.count("executed") > 0) {
    add_executed(all, ExecutedResults{values["executed"].as<std::string>()}, paper_config_folder());
  }
  if (values.count("json") > 0) {
    std::cout << to_json(all).dump(1) << '\n';
  } else {
    for (std::size_t i = 0; i < all.size(); ++i)
      std::cout << (i == 0 ? "" : "\n") << to_text(all[i]);
  }
  if (values.count("output") > 0) write_folder(values["output"].as<std::string>(), all);
  return 0;
}

}  // namespace stagecraft
