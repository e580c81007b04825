#include "apps/stagecraft/sweep/sweep_options.hpp"

#include <limits>

#include "apps/program/file_count.hpp"
#include "apps/program/output_paths.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/operating_options.hpp"

namespace stagecraft {

namespace {

Shard read_shard(std::string const& text) {
  std::size_t const slash = text.find('/');
  if (slash == std::string::npos) {
    throw CommandLineError{"--shard", "'" + text + "'", "I/N, such as 2/8"};
  }
  constexpr int most = 1'000'000;
  Shard shard;
  shard.count = whole_number("--shard " + text, text.substr(slash + 1), 1, most);
  shard.number = whole_number("--shard " + text, text.substr(0, slash), 1, shard.count);
  return shard;
}

void refuse_with_merge(CommandLine const& line) {
  for (char const* const option : {"shard", "resume", "dry-run", "jobs", "limit"}) {
    if (line.is_given(option)) {
      throw CommandLineError{std::string{"--"} + option, "with --merge",
                             "without it, as a merge computes nothing"};
    }
  }
  for (char const* const option : {"price", "power"}) {
    if (line.find(option).value_or("").find('=') != std::string::npos) {
      throw CommandLineError{std::string{"--"} + option,
                             "'" + line.value(option) + "' with --merge",
                             "one value for all: shards do not say which system a row is of"};
    }
  }
}

}  // namespace

std::vector<Option> sweep_options() {
  return {
      {.name = "output",
       .letter = 'o',
       .value = Value::file("R.h5"),
       .description = "the results: HDF5, one dataset per column"},
      {.name = "csv",
       .value = Value::file("F.csv"),
       .description = "also write the results as CSV"},
      jobs_option(),
      {.name = "shard",
       .value = Value::text("I/N"),
       .description = "compute only the I-th of N parts of equal work, counted from 1"},
      {.name = "resume",
       .description = "continue an interrupted sweep with this output, if there is one"},
      {.name = "merge",
       .description = "merge the results of all shards, given instead of SWEEP.yaml"},
      {.name = "limit",
       .value = Value::text("N"),
       .fallback = "1000000",
       .description = "refuse a sweep with more points"},
      {.name = "rank",
       .value = Value::word({"tokens", "seconds", "mfu", "cost"}),
       .fallback = "tokens",
       .description = "what the rows that are shown are the best by: tokens per second and GPU, "
                      "seconds of an iteration, MFU, or cost per token, with --price"},
      {.name = "dry-run",
       .description = "print the number of points and an estimate of the time, and stop"},
      {.name = "json", .description = "print one JSON document"}};
}

SweepOptions read_sweep_options(CommandLine const& line) {
  std::vector<std::string> const& files = line.arguments();
  SweepOptions options;
  options.merges = line.has("merge");
  options.resumes = line.has("resume");
  options.is_dry_run = line.has("dry-run");
  options.json = line.has("json");
  if (options.merges) refuse_with_merge(line);
  bool const has_inputs = options.merges ? !files.empty() : files.size() == 1;
  if (!has_inputs) {
    std::string const found = file_count(files.size());
    if (options.merges) throw CommandLineError{"SHARD.h5", found, "the results of all shards"};
    throw CommandLineError{"SWEEP.yaml", found, "one sweep file"};
  }
  options.inputs.assign(files.begin(), files.end());
  options.output =
      options.is_dry_run ? line.find("output").value_or("") : line.needed("output", file_to_write);
  options.csv = line.find("csv").value_or("");
  if (!options.csv.empty() && options.csv == options.output) {
    throw CommandLineError{"--csv", "'" + options.csv.string() + "', which is the output itself",
                           "another file"};
  }
  for (SweepRank const rank : {SweepRank::iteration_seconds, SweepRank::mfu, SweepRank::cost}) {
    if (line.value("rank") == name_of(rank)) options.rank = rank;
  }
  options.rates = read_system_rates(line);
  if (options.rank == SweepRank::cost && !line.has("price")) {
    throw CommandLineError{"--rank", "'cost' without --price",
                           "cost together with --price, or another rank"};
  }
  if (line.has("shard")) options.shard = read_shard(line.value("shard"));
  options.jobs = jobs_of(line);
  options.limit = line.whole_number("limit", 1, std::numeric_limits<int>::max());
  return options;
}

}  // namespace stagecraft
