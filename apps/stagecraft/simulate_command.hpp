#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// `stagecraft simulate CONFIG`: per-stage memory and iteration time, as tables or as JSON.
/// \return exit code: 3 with --require-fit where a stage does not fit
/// \throws CommandLineError, ConfigError, std::invalid_argument
int simulate_command(std::vector<std::string> const& arguments);

}  // namespace stagecraft
