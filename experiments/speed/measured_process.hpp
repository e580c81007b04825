#pragma once

#include <string>
#include <vector>

/// Seconds that a process took.
struct ProcessSeconds {
  double wall = 0;
  double cpu = 0;  ///< user and system: what of it was not waiting for a core
};

/// Runs a program to its end, its output thrown away. \throws std::runtime_error  when it cannot be
/// run or fails.
ProcessSeconds measure_process(std::vector<std::string> const& words);
