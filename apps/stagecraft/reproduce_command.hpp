#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// `stagecraft reproduce [WHAT...]`: tables and figures of the paper, predicted beside published.
/// \return exit code
/// \throws CommandLineError, ConfigError, std::runtime_error
int reproduce_command(std::vector<std::string> const& arguments);

}  // namespace stagecraft
