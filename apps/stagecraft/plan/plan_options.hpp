#pragma once

#include <vector>

#include "apps/program/command_line.hpp"
#include "apps/stagecraft/plan/plan_question.hpp"

namespace stagecraft {

/// The options of the command.
std::vector<Option> plan_options();

/// Reads the command line, and the files that it names.
/// \throws CommandLineError, ConfigError
PlanQuestion read_plan_question(CommandLine const& line);

}  // namespace stagecraft
