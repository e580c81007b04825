#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// `stagecraft-exec run`: executes a plan; returns the exit code.
/// \throws CommandLineError, ConfigError, OutputError and what execution throws.
int run_command(std::vector<std::string> const& arguments);

}  // namespace stagecraft
