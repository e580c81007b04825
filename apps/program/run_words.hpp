#pragma once

#include <string>
#include <vector>

#include "apps/program/command.hpp"

namespace stagecraft {

/// What --help prints.
std::string help_text(Command const& command);

/// Runs the command, or the subcommand, that the words behind its name ask for, or prints its help.
/// \throws CommandLineError, and whatever the command throws
int run_words(Command const& command, std::vector<std::string> const& words);

/// The same for a command without subcommands, ignoring its `start`.
int read_and_run(Command const& command, std::vector<std::string> const& words);

}  // namespace stagecraft
