#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/program/command_line.hpp"
#include "libsim/search/search_request.hpp"

namespace stagecraft {

/// One --fix.
struct FixOption {
  std::string text;    ///< NAME=VALUE[,VALUE...]
  SearchFilter alone;  ///< the filter of this option alone
};

/// The options of `stagecraft plan`.
struct PlanOptions {
  SearchRequest request;
  std::vector<FixOption> fixes;  ///< request.filter consists of these
  std::vector<std::string> warnings;
  bool json = false;
  std::optional<double> price;   ///< per GPU hour, in the user's currency
  std::string currency;          ///< of the price, as the user wrote it; may be empty
  std::optional<double> tokens;  ///< to train on
  std::optional<std::filesystem::path> output;
};

/// The options of the command.
std::vector<Option> plan_options();

/// Reads the command line, and the files that it names.
/// \throws CommandLineError, ConfigError
PlanOptions read_plan_options(CommandLine const& line);

}  // namespace stagecraft
