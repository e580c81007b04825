#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>

#include "apps/program/command_line.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/command_results.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/data_files.hpp"
#include "apps/stagecraft/terminal.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/run/named_file.hpp"
#include "libsim/run/run_variants.hpp"
#include "libsim/validation/validation.hpp"
#include "libsim/validation/validation_output.hpp"

namespace stagecraft {

namespace {

std::vector<std::string> read_keys(CommandLine const& line) {
  std::vector<std::string> keys;
  for (std::string const& list : line.values_of("by")) {
    for (std::string const& word : list_items(list)) {
      if (!word.empty() && std::find(keys.begin(), keys.end(), word) == keys.end()) {
        keys.push_back(word);
      }
    }
  }
  return keys;
}

void print_warnings(Validation const& validation) {
  constexpr std::size_t most = 10;
  std::size_t shown = 0;
  for (auto const& [warning, rows] : validation.warnings) {
    if (shown++ == most) break;
    std::cerr << "warning: " << warning << " (" << rows << " of " << validation.rows.size()
              << " rows)\n";
  }
  if (validation.warnings.size() > most) {
    std::cerr << "warning: and " << validation.warnings.size() - most << " more of this kind\n";
  }
}

int run_validate(CommandLine const& line) {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> begin;
  std::optional<ProgressBar> bar{std::in_place};
  Validation const validation =
      validate_as_asked(line, [&](char const* part, double share, double count) {
        if (!begin) begin = Clock::now();
        bar->show(part, share, count, "rows");
      });
  bar.reset();
  Clock::time_point const end = Clock::now();
  double const seconds = std::chrono::duration<double>(end - begin.value_or(end)).count();
  std::size_t const total = validation.rows.size();

  print_warnings(validation);
  if (line.has("json")) {
    write_json(validation, std::cout);
    std::cerr << problems_text(validation, 10);
  } else {
    std::cout << total << (total == 1 ? " row" : " rows") << " predicted in "
              << decimals(seconds, 2) << " s (" << decimals(static_cast<double>(total) / seconds, 0)
              << " per second)\n\n"
              << validation_text(validation);
  }
  bool const has_failed =
      std::none_of(validation.rows.begin(), validation.rows.end(),
                   [](ValidatedRow const& row) { return row.problems.empty(); });
  if (!has_failed) return 0;
  ValidatedRow const& first = validation.rows.front();
  std::cerr << "stagecraft validate: all rows have a problem; the first: "
            << problem_line(first, first.problems.front()) << '\n';
  return all_rows_failed;
}

}  // namespace

Validation validate_as_asked(CommandLine const& line, CommandProgress const& progress) {
  std::optional<std::filesystem::path> base;
  if (line.has("base")) base = file_on_command_line(line.value("base"), run_folders());
  int const jobs = jobs_of(line);
  RunVariants const runs = load_run_variants(base, line.values_of("set"));
  std::vector<DataFile> const files = read_data_files(line.arguments());
  std::size_t total = 0;
  for (DataFile const& file : files) total += file.rows();
  progress("predicting", 0, 0);
  return validate(files, runs, read_keys(line), jobs, [&](std::int64_t rows) {
    auto const done = static_cast<double>(rows);
    progress("predicting", done / static_cast<double>(total), done);
  });
}

Command validate_command() {
  return {.name = "validate",
          .summary = "measured runs beside their predictions: errors, ranking, fit",
          .introduction = R"(usage: stagecraft validate DATA.csv... [--base RUN.yaml] [options]

Predicts every row of one or several data files and compares it with what was measured: errors of
the iteration's time, how well competing plans are ranked, and whether runs fit.

DATA.csv has a header. A column is a key of a run file (parallel.tensor, recompute, system), whose
cells are values as --set takes them (in quotes if they hold commas), or one of
  id, group                   of a run; runs of one group compete (one model, one machine)
  measured.iteration_seconds
  measured.reserved_bytes, measured.allocated_bytes, measured.first_allocated_bytes,
  measured.resident_bytes, measured.stage (of these bytes; else the fullest)
  measured.fits               true or false
  weight                      of the row in a fit; not used here
An empty cell leaves the value of --base. Files are relative to the data file.

error   predicted / measured - 1; mean, median and p90 are of its absolute value
bias    the median of predicted / measured, minus 1; spread: the mean absolute deviation from it
regret  the measured time of the run predicted fastest over the least measured one, minus 1; mean
        and worst over the groups of at least 8 timed rows, as is Spearman's rank correlation
A row that cannot be predicted is named, counted and left out. If that is all rows, the exit code
is 1; a data file that is not CSV, or has other columns, ends with 2.
)",
          .examples =
              R"(  stagecraft validate experiments/validation/table5.csv
  stagecraft validate runs.csv --base configs/paper/175b-present.yaml --by parallel.tensor,batch.micro
  stagecraft validate runs.csv --set system=configs/systems/dgx-h100.yaml --json
)",
          .options = {{.name = "base",
                       .value = Value::file("RUN.yaml"),
                       .description = "a run file with the values that no column sets"},
                      {.name = "set",
                       .value = setting_value(),
                       .may_repeat = true,
                       .description = "override a key of the base; may be repeated"},
                      {.name = "by",
                       .value = Value::text("KEY,..."),
                       .may_repeat = true,
                       .description = "one line per value of each of these keys, or of group"},
                      jobs_option(),
                      {.name = "json", .description = "print one JSON document, with every row"}},
          .argument = Value::file("DATA.csv"),
          .run = run_validate};
}

}  // namespace stagecraft
