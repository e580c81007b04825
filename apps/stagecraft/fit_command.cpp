#include <filesystem>
#include <iostream>
#include <limits>
#include <optional>
#include <system_error>

#include "apps/program/command_line.hpp"
#include "apps/program/file_count.hpp"
#include "apps/program/output_paths.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/command_results.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/data_files.hpp"
#include "apps/stagecraft/terminal.hpp"
#include "libsim/config/yaml_text.hpp"
#include "libsim/fit/fit.hpp"
#include "libsim/fit/fit_data.hpp"
#include "libsim/fit/fit_output.hpp"
#include "libsim/fit/memory_factor.hpp"
#include "libsim/fit/stack_factor.hpp"
#include "libsim/hardware/system_reader.hpp"
#include "libsim/host/file_error.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/run/named_file.hpp"
#include "libsim/validation/validation_output.hpp"

namespace stagecraft {

namespace {

/// The kind of a file of the result: run.yaml, system.yaml or software.yaml.
OutputKind kind_of(std::filesystem::path const& file) {
  if (file.stem() == "run") return OutputKind::run;
  return file.stem() == "system" ? OutputKind::system : OutputKind::software;
}

/// The folder of --output, made if it is not there. `names`: the files that will be written there.
std::optional<std::filesystem::path> output_folder(CommandLine const& line,
                                                   std::vector<std::string> const& names) {
  if (!line.has("output")) return std::nullopt;
  std::filesystem::path folder = line.value("output");
  std::vector<std::filesystem::path> inputs;
  for (std::string const& file : line.arguments()) inputs.emplace_back(file);
  for (char const* const option : {"system", "software", "base"}) {
    if (line.has(option)) inputs.emplace_back(line.value(option));
  }
  for (std::string const& name : names) {
    check_output("--output (-o)", folder / name, kind_of(name), inputs);
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require_writable(folder / "software.yaml");
  return folder;
}

/// Writes a file of the result and returns its path.
std::string write_yaml(std::filesystem::path const& path,
                       std::string const& comment,
                       nlohmann::ordered_json const& content) {
  write_output(path,
               origin_line(kind_of(path), "fit") + "# " + comment + "\n" + yaml_text(content));
  return path.string();
}

/// The option that says what one run showed; empty for data files.
std::string observed_option(CommandLine const& line) {
  std::string option;
  for (char const* const name : {"measured", "died", "reserved", "allocated"}) {
    if (!line.has(name)) continue;
    if (!option.empty()) {
      throw CommandLineError{"--" + std::string{name}, "with --" + option,
                             "one of --measured, --died, --reserved and --allocated"};
    }
    option = name;
  }
  return option;
}

Bytes bytes_of(CommandLine const& line, std::string const& option) {
  auto const bytes = parse_quantity<Bytes>(line.value(option));
  if (bytes && bytes->count() > 0) return *bytes;
  throw CommandLineError{"--" + option, "'" + line.value(option) + "'",
                         "bytes with their unit, such as 71.3GiB, above 0"};
}

MemoryObservation observation_of(CommandLine const& line, std::string const& option) {
  MemoryObservation seen;
  if (option == "reserved") seen.kind = MemoryObservation::Kind::reserved;
  if (option == "allocated") seen.kind = MemoryObservation::Kind::allocated;
  if (option != "died") seen.bytes = bytes_of(line, option);
  if (line.has("stage")) {
    seen.stage = StageId{line.whole_number("stage", 0, std::numeric_limits<int>::max())};
  }
  if (line.has("tried-bytes")) seen.tried = bytes_of(line, "tried-bytes");
  return seen;
}

/// What to do with a fitted stack.
std::string next_text(std::optional<std::filesystem::path> const& folder) {
  std::string const where = folder ? (*folder / "").string() : "DIR/";
  return std::string{folder ? "Next: " : "Next: -o DIR writes the stack and the run; then "} +
         "`stagecraft explain " + where +
         "run.yaml` says where the time and\nthe memory go, and "
         "`stagecraft plan MODEL --software " +
         where +
         "software.yaml ...` searches with the "
         "stack.\n";
}

/// Writes the stack and a run file that names it, and tells what was fitted.
template <typename Factor>
FitOutcome outcome_of(Factor const& factor,
                      std::optional<std::filesystem::path> const& folder,
                      std::string const& run) {
  FitOutcome outcome;
  if (folder) {
    std::string const comment = "A stack fitted by stagecraft fit to one run of " + run;
    outcome.files.push_back(
        write_yaml(*folder / "software.yaml", comment, to_json(factor.run.system.software)));
    nlohmann::ordered_json content = to_json(factor.run);
    content["software"] = "./software.yaml";
    outcome.files.push_back(write_yaml(*folder / "run.yaml", run + " with that stack", content));
  }
  outcome.document = to_json(factor, outcome.files);
  outcome.text = factor_text(factor) + next_text(folder);
  return outcome;
}

FitOutcome fit_one_run(CommandLine const& line, std::string const& option) {
  std::vector<std::string> const& runs = line.arguments();
  if (runs.size() != 1) {
    throw CommandLineError{"--" + option, file_count(runs.size()),
                           "one RUN.yaml, of which this was seen"};
  }
  for (char const* const other : {"base", "system", "constants"}) {
    if (!line.has(other)) continue;
    throw CommandLineError{"--" + std::string{other}, "with --" + option, "with data files"};
  }
  std::optional<Seconds> measured;
  MemoryObservation seen;
  if (option == "measured") {
    measured = parse_quantity<Seconds>(line.value("measured"));
    if (!measured || measured->value <= 0) {
      throw CommandLineError{"--measured", "'" + line.value("measured") + "'",
                             "the time of an iteration with its unit, such as 12.9s, above 0"};
    }
  } else {
    seen = observation_of(line, option);
  }
  std::vector<std::string> overrides = line.values_of("set");
  if (line.has("software")) overrides.push_back("software=" + line.value("software"));
  auto const folder = output_folder(line, {"software.yaml", "run.yaml"});
  std::string const& name = runs.front();
  RunConfig const run = load_run_config(file_on_command_line(name, run_folders()), overrides);
  FitOutcome outcome = measured ? outcome_of(fit_factor(run, *measured, name), folder, name)
                                : outcome_of(fit_memory_factor(run, seen, name), folder, name);
  for (std::string const& warning : run.warnings) outcome.notes += "warning: " + warning + '\n';
  return outcome;
}

std::vector<std::string> read_constants(CommandLine const& line) {
  std::vector<std::string> keys;
  for (std::string const& list : line.values_of("constants")) {
    for (std::string const& word : list_items(list)) {
      if (!word.empty()) keys.push_back(word);
    }
  }
  return keys;
}

/// The base with the system and the stack that the command line names.
RunVariants base_of(CommandLine const& line) {
  std::optional<std::filesystem::path> base;
  if (line.has("base")) base = file_on_command_line(line.value("base"), run_folders());
  std::vector<std::string> overrides;
  for (char const* const section : {"system", "software"}) {
    if (line.has(section)) overrides.push_back(section + ("=" + line.value(section)));
  }
  for (std::string const& text : line.values_of("set")) overrides.push_back(text);
  return load_run_variants(base, overrides);
}

std::string file_names(std::vector<std::string> const& paths) {
  std::string names;
  for (std::string const& path : paths) {
    names += (names.empty() ? "" : ", ") + std::filesystem::path{path}.filename().string();
  }
  return names;
}

FitOutcome fit_data_files(CommandLine const& line, CommandProgress const& progress) {
  int const jobs = jobs_of(line);
  RunVariants const base = base_of(line);
  std::vector<DataFile> const files = read_data_files(line.arguments());
  std::vector<std::string> left_out;
  auto const choices = choose_constants(system_of(base), read_constants(line), left_out);
  auto const folder = output_folder(line, {"system.yaml", "software.yaml"});
  std::size_t total = 0;
  for (DataFile const& file : files) total += file.rows();

  FitData const data = read_fit_data(files, base, jobs, [&](std::int64_t rows) {
    auto const done = static_cast<double>(rows);
    progress("reading", done / static_cast<double>(total), done);
  });
  FitOutcome outcome;
  if (data.runs.empty()) {
    outcome.notes = problems_text(data.problems, 10);
    outcome.failure = "no row can be used: " + std::to_string(data.problems.rows.size()) +
                      " have a problem, " + std::to_string(data.untimed) + " have no time, " +
                      std::to_string(data.others) + " are of another system or stack than " +
                      machine_text(data.system);
    char const* separator = ": ";
    for (auto const& [name, rows] : data.others_by_name) {
      *outcome.failure += separator + std::to_string(rows) + " of " + name;
      separator = ", ";
    }
    return outcome;
  }
  Fit const result = fit(data, choices, jobs, [&](double share, std::int64_t predictions) {
    progress("fitting", share, static_cast<double>(predictions));
  });

  if (read_constants(line).empty() && choices.front().key == factor_key) {
    outcome.notes += "note: no constant of " + machine_text(data.system) +
                     " is marked as fitted: " + choices.front().key + " is (--constants)\n";
  }
  for (std::string const& key : left_out) {
    outcome.notes +=
        "warning: " + key + " is marked as fitted too and was left alone (--constants)\n";
  }
  outcome.notes += problems_text(data.problems, 10);
  std::vector<std::string>& written = outcome.files;
  if (folder) {
    std::string const names = file_names(line.arguments());
    System const system = fitted_system(data.system, result, provenance_text(result, {names}));
    std::string const comment = "Fitted by stagecraft fit to " + names;
    written.push_back(write_yaml(*folder / "system.yaml", comment, to_json(system)));
    written.push_back(write_yaml(*folder / "software.yaml", comment, to_json(system.software)));
  }
  outcome.document = to_json(result, data, written);
  outcome.text = fit_text(result, data);
  return outcome;
}

int run_fit(CommandLine const& line) {
  std::optional<ProgressBar> bar{std::in_place};
  FitOutcome const outcome = fit_as_asked(line, [&](char const* part, double share, double count) {
    bar->show(part, share, count, part == std::string{"reading"} ? "rows" : "predictions");
  });
  bar.reset();
  std::cerr << outcome.notes;
  if (outcome.failure) {
    std::cerr << "stagecraft fit: " << *outcome.failure << '\n';
    return all_rows_failed;
  }
  if (line.has("json")) {
    std::cout << outcome.document.dump(1) << '\n';
    return 0;
  }
  std::cout << outcome.text;
  for (std::string const& file : outcome.files) std::cout << "wrote " << file << '\n';
  return 0;
}

}  // namespace

FitOutcome fit_as_asked(CommandLine const& line, CommandProgress const& progress) {
  std::string const option = observed_option(line);
  auto const belongs_to = [&](char const* detail, bool is_there, char const* options) {
    if (!line.has(detail) || is_there) return;
    throw CommandLineError{"--" + std::string{detail}, "without it",
                           "beside " + std::string{options}};
  };
  bool const is_of_memory = !option.empty() && option != "measured";
  belongs_to("stage", is_of_memory, "--died, --reserved or --allocated");
  belongs_to("tried-bytes", option == "died", "--died");
  return option.empty() ? fit_data_files(line, progress) : fit_one_run(line, option);
}

Command fit_command() {
  return {
      .name = "fit",
      .summary = "constants of a system and its software from measured runs",
      .introduction = R"(usage: stagecraft fit RUN.yaml --measured TIME [-o DIR]
       stagecraft fit RUN.yaml --died | --reserved Q | --allocated Q [--stage S] [-o DIR]
       stagecraft fit DATA.csv... --system S [--software W] [--constants K,...] [-o DIR]

Of one run only one number is fitted. Its measured iteration gives software.factor, by which every
duration is multiplied. Its memory gives software.memory.factor, by which all that the framework's
allocator holds is multiplied: measured bytes give it alone, and a run that died of memory as far
as it contradicts what measured runs lead to expect.

Of data files (as validate takes them) it fits constants of the system and its stack: those named, or
those that the files mark as fitted (at most four of the stack and two of the system; if none is,
software.factor). It minimises the squares of ln(measured / predicted) with a prior for each constant: its value, with the `spread`
that the file gives or one by the kind of constant. Runs that are far off count little (Huber).
A constant that the data cannot tell from the others stays as it was, and the result says so.
A constant that is `fitted: with NAME` is scaled with NAME.

The result is cross-validated: groups (column `group`) fall into five folds by a hash of their
names, and each fold is predicted with a fit to the others. Rows of another system or stack are left
out, as are rows with a problem. If no row is left, the exit code is 1; a file that is not CSV, or
has other columns, ends with 2.
-o writes system.yaml and software.yaml (of one run: software.yaml and run.yaml).
)",
      .examples =
          R"(  stagecraft fit configs/paper/22b-present.yaml --measured 1.13s -o mine
  stagecraft fit configs/paper/22b-present.yaml --died --tried-bytes 384MiB
  stagecraft fit experiments/validation/data/vtrain-single-node.csv \
    --base experiments/validation/vtrain-single-node.yaml --constants software.host.kernel -o fitted
)",
      .options = {{.name = "measured",
                   .value = Value::text("TIME"),
                   .description = "the measured time of an iteration of RUN.yaml, such as 12.9s"},
                  {.name = "died", .description = "a rank of RUN.yaml ran out of memory"},
                  {.name = "reserved",
                   .value = Value::text("Q"),
                   .description = "what torch.cuda.max_memory_reserved() of a rank gave: 71.3GiB"},
                  {.name = "allocated",
                   .value = Value::text("Q"),
                   .description = "the same of max_memory_allocated()"},
                  {.name = "stage",
                   .value = Value::text("S"),
                   .description = "the stage of that rank (default: the fullest)"},
                  {.name = "tried-bytes",
                   .value = Value::text("Q"),
                   .description = "with --died: what it tried to allocate, as its error says"},
                  {.name = "system",
                   .value = system_value("S.yaml"),
                   .description = "the system whose runs and constants these are"},
                  {.name = "software",
                   .value = software_value("W"),
                   .description = "its software stack, a file or a name of configs/software"},
                  {.name = "constants",
                   .value = Value::text("K,..."),
                   .may_repeat = true,
                   .description = "keys such as system.calibration.gemm_efficiency"},
                  {.name = "base",
                   .value = Value::file("RUN.yaml"),
                   .description = "a run file with the values that no column sets"},
                  {.name = "set",
                   .value = setting_value(),
                   .may_repeat = true,
                   .description = "override a key of the base; may be repeated"},
                  {.name = "output",
                   .letter = 'o',
                   .value = Value::folder(),
                   .description = "write the fitted files there"},
                  jobs_option(),
                  json_option()},
      .argument = run_file("FILE"),
      .run = run_fit};
}

}  // namespace stagecraft
