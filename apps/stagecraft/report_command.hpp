#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// `stagecraft report`: one self-contained HTML page about one or several traces.
/// \return exit code
/// \throws CommandLineError, TraceFileError, OutputError
int report_command(std::vector<std::string> const& arguments);

}  // namespace stagecraft
