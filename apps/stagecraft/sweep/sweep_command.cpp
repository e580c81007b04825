#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "apps/program/command_line.hpp"
#include "apps/program/output_paths.hpp"
#include "apps/stagecraft/command_results.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/operating_options.hpp"
#include "apps/stagecraft/sweep/sweep_options.hpp"
#include "apps/stagecraft/sweep/sweep_output.hpp"
#include "apps/stagecraft/terminal.hpp"
#include "libsim/host/file_error.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/host/program_version.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/run/named_file.hpp"
#include "libsim/sweep/operating_columns.hpp"
#include "libsim/sweep/point_source.hpp"
#include "libsim/sweep/sweep_check.hpp"
#include "libsim/sweep/sweep_forecast.hpp"
#include "libsim/sweep/sweep_reader.hpp"
#include "libsim/sweep/sweep_run.hpp"
#include "libsim/sweep/sweep_table.hpp"
#include "libsim/sweep/system_rates.hpp"

namespace stagecraft {

namespace {

/// The approximate size of a row in the journal.
constexpr double journal_bytes_per_row = 360;

void refuse_existing(SweepOptions const& options) {
  if (options.resumes) {
    if (!options.output.empty()) {
      check_output("--output", options.output, OutputKind::sweep, options.inputs);
    }
    if (!options.csv.empty())
      check_output("--csv", options.csv, OutputKind::sweep_table, options.inputs);
    return;
  }
  std::error_code ignored;
  char const* name = "--output";
  for (std::filesystem::path const& path : {options.output, options.csv}) {
    if (!path.empty() && std::filesystem::exists(path, ignored)) {
      throw CommandLineError{name, "'" + path.string() + "', which exists",
                             options.merges ? "another file" : "another file, or --resume"};
    }
    name = "--csv";
  }
}

/// Checks before any work that the results can be written. The caller must hold the journal,
/// because another process could be writing them.
void try_outputs(SweepOptions const& options, SweepJournal& journal) {
  try {
    for (std::filesystem::path const& path : {options.output, options.csv}) {
      if (!path.empty()) OutputFile const trial{path};
    }
  } catch (OutputError const&) {
    if (journal.rows() == 0) journal.remove();
    throw;
  }
}

double seconds_of(Sweep const& sweep, std::int64_t rows, int jobs) {
  double const rate = points_per_second(sweep, jobs);
  return rate > 0 ? static_cast<double>(rows) / rate : 0;
}

/// What is to be done, as one line: points, how they come about, and an estimate of time.
/// `excluded`: of the cross product; nothing where nobody has counted.
std::string forecast(Sweep const& sweep,
                     std::int64_t rows,
                     std::optional<std::int64_t> excluded,
                     SweepOptions const& options) {
  std::string factors;
  for (SweepAxis const& axis : sweep.axes) {
    factors +=
        (factors.empty() ? "" : " x ") + std::to_string(axis.entries.size()) + " " + axis.name;
  }
  if (excluded && !sweep.filter.conditions().empty()) {
    factors += ", " + std::to_string(*excluded) + " excluded by where";
  }
  if (options.shard.count > 1) factors += "; shard " + options.shard.text();
  return std::to_string(rows) + " points (" + factors + "), about " +
         duration_text(seconds_of(sweep, rows, options.jobs)) + " on " +
         std::to_string(options.jobs) + (options.jobs == 1 ? " thread" : " threads") + " and " +
         decimals(static_cast<double>(rows) * journal_bytes_per_row / 1e6, 1) + " MB on disk";
}

nlohmann::ordered_json forecast_json(Sweep const& sweep,
                                     std::int64_t rows,
                                     std::int64_t excluded,
                                     SweepOptions const& options) {
  auto axes = nlohmann::ordered_json::array();
  for (SweepAxis const& axis : sweep.axes) {
    axes.push_back({{"name", axis.name}, {"values", axis.entries.size()}});
  }
  return {{"schema", forecast_schema},
          {"shard", options.shard.text()},
          {"points", sweep.points},
          {"excluded", excluded},
          {"rows", rows},
          {"axes", axes},
          {"threads", options.jobs},
          {"seconds", seconds_of(sweep, rows, options.jobs)},
          {"bytes", static_cast<std::int64_t>(static_cast<double>(rows) * journal_bytes_per_row)}};
}

[[noreturn]] void refuse_large(Sweep const& sweep,
                               std::int64_t rows,
                               std::optional<std::int64_t> excluded,
                               char const* of_what,
                               SweepOptions const& options) {
  throw InputError{sweep.origin + ": found " + forecast(sweep, rows, excluded, options) +
                   "; accepted: up to " + std::to_string(options.limit) + of_what +
                   ", or more with --limit"};
}

/// Refuses what would take too long even to count.
void require_countable(Sweep const& sweep, SweepOptions const& options) {
  constexpr std::int64_t counted_per_row = 100;
  if (sweep.points / counted_per_row > options.limit) {
    refuse_large(sweep, sweep.points, std::nullopt, " (100 times as many before where)", options);
  }
}

void print_warnings(std::vector<std::string> const& warnings) {
  constexpr std::size_t most = 10;
  for (std::size_t i = 0; i < std::min(most, warnings.size()); ++i) {
    std::cerr << "warning: " << warnings[i] << '\n';
  }
  if (warnings.size() > most) {
    std::cerr << "warning: and " << warnings.size() - most << " more of this kind\n";
  }
}

std::int64_t count_within_limit(Sweep const& sweep,
                                SweepOptions const& options,
                                CommandProgress const& progress) {
  std::int64_t const count = count_points(sweep, options.jobs, [&](double done) {
    progress("counting", done, done * static_cast<double>(sweep.points));
  });
  if (count == 0) {
    throw InputError{sweep.origin + ": where: found conditions that leave out all " +
                     std::to_string(sweep.points) + " points; accepted: some that leave some"};
  }
  if (options.shard.size_of(count) > options.limit) {
    refuse_large(sweep, options.shard.size_of(count), sweep.points - count, "", options);
  }
  return count;
}

/// The results of a sweep that has already ended.
ColumnFile finished_table(Sweep const& sweep, SweepOptions const& options) {
  ColumnFile table = read_sweep_table(options.output);
  struct Wanted {
    char const* attribute;
    std::string value;
    char const* what;
  };
  for (Wanted const& wanted : {Wanted{"fingerprint", sweep.fingerprint, "another sweep"},
                               Wanted{"shard", options.shard.text(), "another shard"},
                               Wanted{"program_version", program_version(), "another version"}}) {
    if (table.attribute(wanted.attribute) != wanted.value) {
      throw InputError{options.output.string() + ": found the results of " + wanted.what +
                       "; accepted: those of this sweep, or another --output"};
    }
  }
  return table;
}

/// Adds money and energy to the results of a sweep.
void add_rates(ColumnFile& table, Sweep const& sweep, SystemRates const& rates) {
  bool const is_by_system = !rates.price.empty() || !rates.watts.empty();
  add_operating_columns(
      table,
      [&](std::int64_t point) {
        return is_by_system ? rates_of_point(sweep, rates, point) : rates.common;
      },
      rates.common.currency);
}

/// Simulates what the journal lacks, and writes the table of all.
void simulate_points(Sweep const& sweep,
                     std::int64_t count,
                     SweepOptions const& options,
                     SweepJournal& journal,
                     CommandProgress const& progress,
                     SweepOutcome& outcome) {
  auto const begin = std::chrono::steady_clock::now();
  auto const total = static_cast<double>(options.shard.size_of(count));
  run_sweep(sweep, options.shard, options.jobs, journal, [&](std::int64_t rows) {
    progress("simulating", static_cast<double>(rows) / total, static_cast<double>(rows));
  });
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  outcome.table = table_of(sweep, options.shard, journal);
  add_rates(outcome.table, sweep, options.rates);
  outcome.warnings = journal.warnings();
  write_sweep_table(outcome.table, options.output, options.csv);
}

SweepOutcome run(Sweep const& sweep,
                 std::int64_t count,
                 SweepOptions const& options,
                 CommandProgress const& progress) {
  SweepOutcome outcome{.output = options.output,
                       .csv = options.csv,
                       .points = sweep.points,
                       .excluded = sweep.points - count};
  std::filesystem::path journal_path = options.output;
  journal_path += ".journal";
  std::error_code ignored;
  bool const is_over = options.resumes &&
                       std::filesystem::is_regular_file(options.output, ignored) &&
                       !std::filesystem::exists(journal_path, ignored);
  if (is_over) {
    outcome.table = finished_table(sweep, options);
    add_rates(outcome.table, sweep, options.rates);
    write_sweep_table(outcome.table, options.output, options.csv);
    return outcome;
  }
  SweepJournal journal{journal_path,
                       {program_version(), sweep.fingerprint, options.shard.text()},
                       options.resumes ? SweepJournal::Open::resumed : SweepJournal::Open::created};
  try_outputs(options, journal);
  std::int64_t const before = journal.rows();
  try {
    simulate_points(sweep, count, options, journal, progress, outcome);
  } catch (OutputError const& error) {
    if (journal.rows() == 0) throw;
    throw std::runtime_error{std::string{error.what()} + "; " + std::to_string(journal.rows()) +
                             " rows are kept in " + journal_path.string() +
                             ": the same command with --resume continues"};
  }
  outcome.computed = journal.rows() - before;
  journal.remove();
  return outcome;
}

/// What a user who ends a sweep is told: signal handlers can neither allocate nor format.
std::array<char, 1024> said_at_end{};

extern "C" void end_sweep(int signal) {
  std::size_t size = 0;
  while (said_at_end[size] != 0) ++size;
  [[maybe_unused]] ssize_t const written = ::write(STDERR_FILENO, said_at_end.data(), size);
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

/// Prints where the rows are kept and which command continues the sweep, on SIGINT and SIGTERM.
void explain_signals(SweepOptions const& options) {
  std::string const text = "\nstagecraft sweep: ended; the rows so far are kept in " +
                           options.output.string() +
                           ".journal: the same command with --resume continues\n";
  text.copy(said_at_end.data(), said_at_end.size() - 1);
  std::signal(SIGINT, end_sweep);
  std::signal(SIGTERM, end_sweep);
}

SweepOutcome merge(SweepOptions const& options) {
  SweepOutcome outcome{
      .table = merge_shards(options.inputs), .output = options.output, .csv = options.csv};
  OperatingRates const& rates = options.rates.common;
  add_operating_columns(
      outcome.table, [&](std::int64_t /*point*/) { return rates; }, rates.currency);
  write_sweep_table(outcome.table, options.output, options.csv);
  outcome.points = std::atoll(outcome.table.attribute("points").c_str());
  outcome.excluded =
      outcome.points - static_cast<std::int64_t>(outcome.table.columns.front().rows());
  return outcome;
}

void print(SweepOutcome const& outcome, SweepOptions const& options) {
  if (outcome.warnings) print_warnings(warning_lines(outcome));
  if (options.json) {
    std::cout << to_json(outcome, options.rank).dump(1) << '\n';
  } else {
    std::cout << sweep_summary(outcome, options.rank);
  }
}

int run_sweep_command(CommandLine const& line) {
  SweepOptions const options = read_sweep_options(line);
  refuse_existing(options);
  if (options.merges) {
    print(merge(options), options);
    return 0;
  }
  Sweep const sweep = load_sweep(file_on_command_line(options.inputs.front(), {"sweeps"}));
  require_rates(options.rates, systems_of(sweep));
  require_countable(sweep, options);
  print_warnings(check_sweep(sweep));
  std::optional<ProgressBar> bar{std::in_place};
  CommandProgress const progress = [&](char const* part, double share, double points) {
    bar->show(part, share, points, "points");
  };
  std::int64_t const count = count_within_limit(sweep, options, progress);
  if (options.is_dry_run) {
    bar.reset();
    std::int64_t const rows = options.shard.size_of(count);
    if (options.json) {
      std::cout << forecast_json(sweep, rows, sweep.points - count, options).dump(1) << '\n';
    } else {
      std::cout << forecast(sweep, rows, sweep.points - count, options) << '\n';
    }
    return 0;
  }
  explain_signals(options);
  SweepOutcome const outcome = run(sweep, count, options, progress);
  bar.reset();
  print(outcome, options);
  return 0;
}

}  // namespace

SweepOutcome sweep_as_asked(Sweep const& sweep,
                            SweepOptions const& options,
                            CommandProgress const& progress) {
  refuse_existing(options);
  require_rates(options.rates, systems_of(sweep));
  require_countable(sweep, options);
  return run(sweep, count_within_limit(sweep, options, progress), options, progress);
}

Command sweep_command() {
  return {
      .name = "sweep",
      .summary = "the cross product of lists of values, into HDF5 and CSV",
      .introduction = R"(usage: stagecraft sweep SWEEP.yaml -o R.h5 [options]
       stagecraft sweep --merge SHARD.h5... -o R.h5 [--csv F.csv]

Simulates the cross product of lists of values; one row per point, with the numbers of `stagecraft
simulate`. A point whose keys cannot go together has a row that says why (valid 0). Killed at
any moment, it goes on with --resume where it was: R.h5.journal holds the rows until R.h5 does.

SWEEP.yaml:
  base: ../paper/175b-present.yaml   # a run file, or its keys in place
  cases:                             # groups of keys that move together
    strategy:                        # a column with the name of the case
      full: {recompute: full, parallel.sequence: false}
      present: {recompute: selective, parallel.sequence: true}
  values:                            # keys of the run file, each with its values
    parallel.tensor: [2, 4, 8]
    batch.micro: [1, 2]
  where:                             # what all rows must meet; other points are left out
    - parallel.tensor * parallel.pipeline <= 64
    - batch.micro == 1 or recompute != full
Conditions know + - * / % == != < <= > >= in [...] and or not, parentheses, keys, numbers and
words. Groups vary slowest, the last key fastest.
)",
      .examples = R"(  stagecraft sweep configs/sweeps/layouts.yaml -o layouts.h5 --csv layouts.csv
  stagecraft sweep configs/sweeps/layouts.yaml --dry-run
  stagecraft sweep big.yaml -o part-3.h5 --shard 3/8 --resume
  stagecraft sweep --merge part-*.h5 -o big.h5
)",
      .options = joined_options({sweep_options(), operating_options()}),
      .argument = Value::file("SWEEP.yaml SHARD.h5", {"yaml", "h5"})
                      .offering("sweeps", [] { return names_of("sweeps"); }),
      .run = run_sweep_command};
}

}  // namespace stagecraft
