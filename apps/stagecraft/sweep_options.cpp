#include "apps/stagecraft/sweep_options.hpp"

#include <algorithm>
#include <limits>
#include <thread>

#include "apps/stagecraft/command_line.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

constexpr char const* default_limit = "1000000";

std::string value_of(po::variables_map const& values, char const* name) {
  return values.count(name) > 0 ? values[name].as<std::string>() : std::string{};
}

Shard read_shard(std::string const& text) {
  std::size_t const slash = text.find('/');
  if (slash == std::string::npos) {
    throw CommandLineError{"--shard: found '" + text + "'; accepted: I/N, such as 2/8"};
  }
  constexpr int most = 1'000'000;
  Shard shard;
  shard.count = whole_number("--shard " + text, text.substr(slash + 1), 1, most);
  shard.number = whole_number("--shard " + text, text.substr(0, slash), 1, shard.count);
  return shard;
}

void refuse_with_merge(po::variables_map const& values) {
  for (char const* const option : {"shard", "resume", "dry-run", "jobs", "limit"}) {
    if (values.count(option) > 0 && !values[option].defaulted()) {
      throw CommandLineError{std::string{"--"} + option +
                             ": found with --merge; accepted: without, nothing is computed"};
    }
  }
}

}  // namespace

po::options_description describe_sweep_options() {
  auto const text = [](char const* name) { return po::value<std::string>()->value_name(name); };
  po::options_description options{"options"};
  auto add = options.add_options();
  add("output,o", text("R.h5"), "the results: HDF5, a column a dataset");
  add("csv", text("F.csv"), "write the results as CSV too");
  add("jobs", text("J"), "threads (default: all cores)");
  add("shard", text("I/N"), "compute only the I-th of N parts (from 1), alike in work");
  add("resume", "go on with the sweep that was at work on this output, if there is one");
  add("merge", "put the results of all shards, given in place of SWEEP.yaml, together");
  add("limit", text("N")->default_value(default_limit), "refuse to compute more points than this");
  add("dry-run", "say how many points there are and how long they will take, and stop");
  add("json", "print one JSON document");
  add("help,h", "print this");
  return options;
}

SweepOptions read_sweep_options(po::variables_map const& values,
                                std::vector<std::string> const& positional) {
  SweepOptions options;
  options.merges = values.count("merge") > 0;
  options.resumes = values.count("resume") > 0;
  options.is_dry_run = values.count("dry-run") > 0;
  options.json = values.count("json") > 0;
  if (options.merges) refuse_with_merge(values);
  bool const has_inputs = options.merges ? !positional.empty() : positional.size() == 1;
  if (!has_inputs) {
    throw CommandLineError{(options.merges
                                ? "SHARD.h5: found 0 files; accepted: the results of all shards"
                                : "SWEEP.yaml: found " + std::to_string(positional.size()) +
                                      " files; accepted: one sweep file")};
  }
  options.inputs.assign(positional.begin(), positional.end());
  options.output = options.is_dry_run ? value_of(values, "output")
                                      : needed(values, "output", "--output (-o)", file_to_write);
  options.csv = value_of(values, "csv");
  if (!options.csv.empty() && options.csv == options.output) {
    throw CommandLineError{"--csv: found '" + options.csv.string() +
                           "', which is the output itself; accepted: another file"};
  }
  if (values.count("shard") > 0) options.shard = read_shard(value_of(values, "shard"));
  int const cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  options.jobs =
      values.count("jobs") > 0 ? whole_number("--jobs", value_of(values, "jobs"), 1, 1024) : cores;
  options.limit =
      whole_number("--limit", value_of(values, "limit"), 1, std::numeric_limits<int>::max());
  return options;
}

}  // namespace stagecraft
