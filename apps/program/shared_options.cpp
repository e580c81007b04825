#include "apps/program/shared_options.hpp"

#include <algorithm>
#include <iostream>
#include <limits>
#include <thread>
#include <utility>

#include "apps/program/command_line.hpp"
#include "apps/program/file_count.hpp"
#include "libsim/engine/ready_run.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/run/named_file.hpp"
#include "libsim/run/run_keys.hpp"
#include "libsim/units/split_text.hpp"

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
    return;  // the file alone is not a run
  }
}

/// The ranks as text: "0 to 7" if none is missing between the first and the last, else the first
/// few.
std::string ranks_text(std::vector<std::int32_t> const& ranks) {
  if (ranks.empty()) return "none: the trace has no ranks";
  bool const is_gapless =
      ranks.back() - ranks.front() + 1 == static_cast<std::int64_t>(ranks.size());
  if (is_gapless) return std::to_string(ranks.front()) + " to " + std::to_string(ranks.back());
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(ranks.size(), 8); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return text + (ranks.size() > 8 ? ", ..." : "");
}

}  // namespace

Option json_option() { return {.name = "json", .description = "print one JSON document"}; }

Option jobs_option() {
  return {.name = "jobs", .value = Value::text("J"), .description = "threads (default: all cores)"};
}

int jobs_of(CommandLine const& line) {
  return line.has("jobs") ? line.whole_number("jobs", 1, 1024) : core_count();
}

int core_count() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

std::vector<Option> run_options() {
  return {{.name = "set",
           .value = setting_value(),
           .may_repeat = true,
           .description =
               "override a key of the run file, e.g. --set parallel.tensor=4; may be repeated"},
          {.name = "print-config",
           .description = "print the effective configuration, which loads again, and stop"},
          json_option()};
}

Value run_file(std::string shown) {
  return Value::file(std::move(shown)).offering("runs", [] {
    std::vector<std::string> names;
    for (std::string const& folder : run_folders()) {
      std::vector<std::string> const of_folder = names_of(folder);
      names.insert(names.end(), of_folder.begin(), of_folder.end());
    }
    return names;
  });
}

Value system_value(std::string shown) {
  return Value::file(std::move(shown)).offering("systems", [] { return names_of("systems"); });
}

Value software_value(std::string shown) {
  return Value::file(std::move(shown)).offering("stacks", [] { return names_of("software"); });
}

Value model_value(std::string shown) {
  return Value::file(std::move(shown)).offering("models", [] { return names_of("models"); });
}

namespace {

/// The words that a key takes: names, or true and false, or the files of a folder.
std::vector<std::string> words_accepted(KeyText const& key) {
  for (auto const& [name, folder] : std::initializer_list<std::pair<char const*, char const*>>{
           {"model", "models"}, {"system", "systems"}, {"software", "software"}}) {
    if (key.key == name) return stagecraft::names_of(folder);
  }
  if (key.accepts == "true or false") return {"true", "false"};
  std::vector<std::string> words;
  for (std::string_view const item : split_text(key.accepts, ", ")) {
    bool const is_word = std::ranges::all_of(
        item, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
    if (is_word) words.emplace_back(item);
  }
  return words;
}

}  // namespace

Value setting_value() {
  return Value::text("KEY=VALUE").offering("keys", [] {
    std::vector<std::string> keys;
    for (KeyText const& text : run_keys()) {
      std::string const beginning = std::string{text.key} + "=";
      keys.push_back(beginning);
      for (std::string const& word : words_accepted(text)) keys.push_back(beginning + word);
    }
    return keys;
  });
}

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

std::vector<std::int32_t> read_trace_ranks(std::string const& list, TraceReader const& trace) {
  std::vector<std::int32_t> const& known = trace.ranks();
  std::vector<std::int32_t> ranks;
  for (std::string const& word : list_items(list)) {
    int const rank = whole_number("--ranks", word, 0, std::numeric_limits<std::int32_t>::max());
    if (!std::binary_search(known.begin(), known.end(), rank)) {
      throw CommandLineError{"--ranks", "'" + word + "'",
                             "ranks of " + trace.name() + ", " + ranks_text(known)};
    }
    ranks.push_back(rank);
  }
  if (ranks.empty()) throw CommandLineError{"--ranks", "''", "numbers and commas"};
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

TraceDetail read_detail(CommandLine const& line) {
  return line.value("detail") == "op" ? TraceDetail::op : TraceDetail::chunk;
}

}  // namespace stagecraft
