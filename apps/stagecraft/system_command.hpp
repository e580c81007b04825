#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// `stagecraft system FILE`: every constant of a system with value, unit, source, and what it was
/// fitted on.
/// \return exit code
/// \throws CommandLineError, ConfigError
int system_command(std::vector<std::string> const& arguments);

}  // namespace stagecraft
