#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// `stagecraft-exec calibrate`: measures this machine and writes a system file; returns the exit
/// code. \throws CommandLineError, OutputError
int calibrate_command(std::vector<std::string> const& arguments);

}  // namespace stagecraft
