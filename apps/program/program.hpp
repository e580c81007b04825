#pragma once

#include <string>
#include <vector>

#include "apps/program/command.hpp"

namespace stagecraft {

/// A program that consists of commands. Every program also has `completion` and `manual`,
/// its last.
struct Program {
  std::string name;
  std::string purpose;   ///< a sentence
  std::string examples;  ///< lines, indented
  std::vector<Command> commands;
  std::string (*features)();  ///< what it was built with
};

}  // namespace stagecraft
