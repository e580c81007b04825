#include "libsim/launch/launch_job.hpp"

#include <algorithm>
#include <sstream>

#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

JobNodes nodes_of(ParallelLayout const& layout, int node_size) {
  int const gpus = world_size(layout);
  int per_node = std::min(gpus, std::max(node_size, 1));
  while (gpus % per_node != 0) --per_node;
  return {.nodes = gpus / per_node, .per_node = per_node};
}

JobNodes nodes_of(LaunchJob const& job) { return nodes_of(job.config.parallel, job.node_size); }

std::string commented(std::string const& text) {
  std::istringstream lines{text};
  std::string comment;
  for (std::string line; std::getline(lines, line);) {
    comment += line.empty() ? "#\n" : "# " + line + "\n";
  }
  return comment;
}

std::string allocator_line(MemoryConfig const& memory) {
  if (memory.allocator != AllocatorKind::pytorch || memory.allocator_settings.empty()) return "";
  return "export PYTORCH_CUDA_ALLOC_CONF=" + shell_word(memory.allocator_settings) + "\n";
}

}  // namespace stagecraft
