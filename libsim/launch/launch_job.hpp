#pragma once

#include <string>

#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// A job that a framework can start: its LaunchFramework::gaps() are none but those of its
/// vocabulary.
struct LaunchJob {
  TrainingConfig config;
  bool is_compiled = false;  ///< whether its software stack compiles blocks and loss
  int node_size = 8;         ///< accelerators of a node
  std::string name;          ///< for a scheduler: letters, digits, - and .
  std::string about;         ///< lines for people, without comment signs
};

/// A file of a launch kit.
struct LaunchFile {
  std::string name;
  std::string text;
  std::string about;  ///< what it is for, in lines
};

/// Nodes of a job, and accelerators on each of them: the largest number that divides the job and
/// that a node has.
struct JobNodes {
  int nodes = 1;
  int per_node = 1;
};
JobNodes nodes_of(ParallelLayout const& layout, int node_size);
JobNodes nodes_of(LaunchJob const& job);

/// Lines of text as comments of a script.
std::string commented(std::string const& text);

/// A line of a script that gives PyTorch's allocator the settings with which memory was predicted;
/// empty if there are none.
std::string allocator_line(MemoryConfig const& memory);

}  // namespace stagecraft
