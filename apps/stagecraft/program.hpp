#pragma once

#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// A command of a program.
struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(std::vector<std::string> const& arguments);
};

/// A program that consists of commands.
struct Program {
  std::string_view name;
  std::string_view purpose;   ///< a sentence
  std::string_view examples;  ///< lines, indented
  std::span<Command const> commands;
  std::string (*features)();  ///< what it was built with
};

/// What a program says of an error that ends it, and with which exit code.
struct Complaint {
  int exit_code = 1;
  std::string text;  ///< lines
};
/// `who`: the program and its command.
Complaint complaint_about(std::exception_ptr const& error, std::string const& who);

/// Runs a command and turns what it throws into an exit code: 0 done; 1 failed; 2 command line,
/// configuration, or unreadable or damaged input; 3 (from the commands) does not fit in memory.
/// `words`: the command line without the program's name.
int run_program(Program const& program, std::vector<std::string> const& words);

}  // namespace stagecraft
