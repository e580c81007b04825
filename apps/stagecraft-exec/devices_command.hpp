#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// `stagecraft-exec devices`: what can run here, and why not; returns the exit code.
/// \throws CommandLineError
int devices_command(std::vector<std::string> const& arguments);

}  // namespace stagecraft
