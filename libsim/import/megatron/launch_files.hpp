#pragma once

#include <string>
#include <vector>

#include "libsim/import/megatron/megatron_version.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// A job whose run Megatron-LM can start: megatron_gaps() has none but those of its vocabulary.
struct LaunchJob {
  TrainingConfig config;
  MegatronVersion version = MegatronVersion::current;
  int node_size = 8;  ///< accelerators of a node
  std::string name;   ///< of the job, for a scheduler: letters, digits, - and .
  std::string about;  ///< lines for people, without comment signs
};

/// A file of a launch kit.
struct LaunchFile {
  std::string name;
  std::string text;
};

/// Lines of text as comments of a script.
std::string commented(std::string const& text);

/// Nodes of a job, and accelerators on each of them: as many as a node has, or if that does not
/// divide the job the largest number below that does.
struct JobNodes {
  int nodes = 1;
  int per_node = 1;
};
JobNodes nodes_of(LaunchJob const& job);

/// A flag of a command line with its values.
struct FlagWords {
  std::string flag;  ///< without dashes
  std::vector<std::string> values;
};

/// megatron_flags() in words.
std::vector<FlagWords> flag_words(LaunchJob const& job);

/// `text` as a shell reads it as one word.
std::string shell_word(std::string const& text);

/// What starts the job with Megatron-LM: a script for torchrun on each node, a script for Slurm,
/// and the flags alone in one line. The current version trains on its mock data unless DATA says
/// otherwise. import_megatron() reads each script back to the same plan.
std::vector<LaunchFile> megatron_launch_files(LaunchJob const& job);

}  // namespace stagecraft
