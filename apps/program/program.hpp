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

/// Compiler, build type, and the HDF5 library in use: `GNU 12.2.0 Release, HDF5 1.10.8 with
/// deflate`.
std::string program_features();

}  // namespace stagecraft
