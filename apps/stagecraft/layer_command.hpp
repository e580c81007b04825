#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// `stagecraft layer CONFIG`: one layer, op by op.
/// \return exit code
/// \throws CommandLineError, ConfigError, std::invalid_argument
int layer_command(std::vector<std::string> const& arguments);

}  // namespace stagecraft
