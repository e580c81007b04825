#pragma once

#include <exception>
#include <string>
#include <vector>

#include "apps/program/command.hpp"
#include "apps/program/program.hpp"

namespace stagecraft {

/// A program's message about an error that ends it, and its exit code.
struct Complaint {
  int exit_code = 1;
  std::string text;  ///< lines
};
/// `who`: the program and its command.
Complaint complaint_about(std::exception_ptr const& error, std::string const& who);

/// Runs a command and turns what it throws into an exit code: 0 done; 1 failed; 2 command line,
/// configuration, or unreadable or damaged input; 3 (from the commands) does not fit in memory.
/// `words`: the command line without the program's name.
int run_program(Program program, std::vector<std::string> const& words);

/// What --help prints.
std::string help_text(Command const& command);

/// Runs the command, or the subcommand, that the words behind its name ask for, or prints its help.
/// \throws CommandLineError, and whatever the command throws
int run_words(Command const& command, std::vector<std::string> const& words);

/// The same for a command without subcommands, ignoring its `start`.
int read_and_run(Command const& command, std::vector<std::string> const& words);

}  // namespace stagecraft
