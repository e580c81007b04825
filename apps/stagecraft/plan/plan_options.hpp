#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/program/command_line.hpp"
#include "libsim/import/megatron/megatron_version.hpp"
#include "libsim/report/operation.hpp"
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
  OperatingRates rates;
  std::optional<MegatronVersion> launchable;  ///< only what this version can run
  /// Without it: the version of the software stack, of which the best plan is also shown.
  std::optional<MegatronVersion> stack_version;
  std::string stack_gap;  ///< what its flags cannot say of the model; empty: nothing
  std::optional<std::filesystem::path> output;
};

/// The share of a device that a plan leaves free beside the reserve unless --margin says otherwise:
/// fragmentation and the framework's own memory vary.
inline constexpr double usual_margin = 0.05;

/// The version of Megatron-LM whose flags are printed.
constexpr MegatronVersion version_of_flags(PlanOptions const& options) {
  return options.launchable.value_or(MegatronVersion::current);
}

/// The name of a version for --launchable.
constexpr char const* name_of(MegatronVersion version) {
  return version == MegatronVersion::of_2022 ? "megatron-2022" : "megatron-core";
}

/// The options of the command.
std::vector<Option> plan_options();

/// Reads the command line, and the files that it names.
/// \throws CommandLineError, ConfigError
PlanOptions read_plan_options(CommandLine const& line);

}  // namespace stagecraft
