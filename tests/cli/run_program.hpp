#pragma once

#include <string>

namespace stagecraft {

/// What a program left behind.
struct ProgramResult {
  int exit_code = 0;
  std::string output;  ///< standard output
  std::string errors;  ///< standard error
};

/// Runs `stagecraft` through a shell. `before` is put in front of the program (variables, a
/// wrapper).
ProgramResult run_stagecraft(std::string const& arguments, std::string const& before = "");

/// Runs `stagecraft-exec` likewise.
ProgramResult run_stagecraft_exec(std::string const& arguments, std::string const& before = "");

/// Runs `stagecraft` with a terminal as standard output.
ProgramResult run_stagecraft_on_terminal(std::string const& arguments,
                                         std::string const& before = "");

}  // namespace stagecraft
