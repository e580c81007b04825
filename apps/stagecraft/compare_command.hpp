#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// `stagecraft compare`: two traces of one plan, as text or as JSON.
/// \return exit code
/// \throws CommandLineError, TraceFileError
int compare_command(std::vector<std::string> const& arguments);

}  // namespace stagecraft
