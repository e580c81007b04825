#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// `stagecraft plan MODEL --system S --gpus N --global-batch B`: the layouts, schedules and
/// recompute policies that fit, ranked. \return exit code: 3 where nothing fits
/// \throws CommandLineError, ConfigError, std::runtime_error
int plan_command(std::vector<std::string> const& arguments);

}  // namespace stagecraft
