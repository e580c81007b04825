#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/program/command_line.hpp"
#include "libsim/model/low_precision.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/search/search_request.hpp"

namespace stagecraft {

/// The run that the search on a system varies, in a recipe of --precision if there is one, with the
/// software stack that --software or --set names: else that of --launchable, else that of the paper
/// on the paper's cluster, and of today elsewhere. `without` is a --set that is left out.
/// \throws CommandLineError  if --set names a key that the search decides. \throws ConfigError
RunConfig read_plan_base(CommandLine const& line,
                         std::string const& system,
                         std::optional<Recipe> recipe,
                         std::string const& without = {});

/// Holds the types of --set sharding.reduce_dtype=TYPE, parameter_dtype and stored_dtype for all
/// kinds with units that are searched, and --set sharding.strategy=NAME for megatron_fsdp. A
/// warning says which kinds do not have them. `recipe`: as read_plan_base() has it.
/// \throws CommandLineError  if a value names no such type or strategy, or one that no run has.
void hold_sharding_keys(std::vector<std::string> const& overrides,
                        std::optional<Recipe> recipe,
                        SearchRequest& request,
                        std::vector<std::string>& warnings);

}  // namespace stagecraft
