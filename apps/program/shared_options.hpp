#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/program/command_line.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/trace/trace_names.hpp"
#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {

// Options that several commands have.

Option json_option();

/// How many threads work: --jobs.
Option jobs_option();
/// The value of jobs_option(), without which it is core_count().
int jobs_of(CommandLine const& line);

/// The threads that the machine runs at once; 1 if it does not say.
int core_count();

/// --set, --print-config and --json.
std::vector<Option> run_options();
/// The argument of a command that works on one run file.
Value run_file(std::string shown = "CONFIG.yaml");

// Values for which completion offers names of configs. `shown`: as help shows the value.

Value system_value(std::string shown);
Value software_value(std::string shown);
Value model_value(std::string shown);
/// A key of run files with a value.
Value setting_value();

/// The arguments of a command that works on one run file.
struct RunArguments {
  std::string path;                    ///< of the run file
  std::vector<std::string> overrides;  ///< KEY=VALUE, of --set
  RunConfig config;
  /// config.training as it was read: `store_microbatches: auto` is not resolved yet.
  TrainingConfig as_read;
  bool is_over = false;  ///< --print-config has been printed; nothing is left to do
};

/// Loads the run file and prints its warnings on standard error.
/// \throws CommandLineError, ConfigError
RunArguments read_run_arguments(CommandLine const& line);

/// The ranks of a trace that `list` names ("0,8,16"), ascending and each once.
/// \throws CommandLineError  if an entry is not a number, or not a rank of the trace.
std::vector<std::int32_t> read_trace_ranks(std::string const& list, TraceReader const& trace);

/// The value of --detail.
TraceDetail read_detail(CommandLine const& line);

}  // namespace stagecraft
