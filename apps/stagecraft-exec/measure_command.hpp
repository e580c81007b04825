#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// `stagecraft-exec measure`: measures a layer on the device at hand; returns the exit code.
/// \throws CommandLineError, ConfigError and what execution throws.
int measure_command(std::vector<std::string> const& arguments);

}  // namespace stagecraft
