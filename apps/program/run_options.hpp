#pragma once

#include <string>
#include <vector>

#include "apps/program/command_line.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// --set, --print-config and --json.
std::vector<Option> run_options();
/// The argument of a command that works on one run file.
Value run_file();

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

}  // namespace stagecraft
