#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// `stagecraft schedule`: a pipeline schedule alone, with plain costs, as text or as JSON.
/// \return exit code
/// \throws CommandLineError, ScheduleError
int schedule_command(std::vector<std::string> const& arguments);

}  // namespace stagecraft
