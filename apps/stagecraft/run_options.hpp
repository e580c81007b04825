#pragma once

#include <boost/program_options.hpp>
#include <string>
#include <vector>

#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// Adds --set, --print-config, --json and --help, and the positional CONFIG.
void add_run_options(boost::program_options::options_description& options);

/// What the user gave a command that works on one run file.
struct RunArguments {
  boost::program_options::variables_map values;
  std::string path;                    ///< of the run file
  std::vector<std::string> overrides;  ///< KEY=VALUE, of --set
  RunConfig config;
  /// config.training as it was read: `store_microbatches: auto` not yet settled.
  TrainingConfig as_read;
  bool is_over = false;  ///< --help or --print-config has been printed; nothing is left to do
};

/// Parses the command line of a command with one CONFIG and loads it; prints its warnings on
/// standard error.
/// \throws CommandLineError, ConfigError
RunArguments read_run_arguments(std::vector<std::string> const& arguments,
                                boost::program_options::options_description const& options,
                                std::string const& introduction,
                                std::string const& examples);

}  // namespace stagecraft
