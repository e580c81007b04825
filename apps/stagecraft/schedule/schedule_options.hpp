#pragma once

#include <vector>

#include "apps/program/command_line.hpp"

namespace stagecraft {

/// The options of `stagecraft schedule`, but for --json.
std::vector<Option> schedule_options();

}  // namespace stagecraft
