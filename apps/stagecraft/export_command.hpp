#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// `stagecraft export`: a trace in a format that other programs read.
/// \return exit code
/// \throws CommandLineError, TraceFileError, OutputError
int export_command(std::vector<std::string> const& arguments);

}  // namespace stagecraft
