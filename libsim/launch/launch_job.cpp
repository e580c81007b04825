#include "libsim/launch/launch_job.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>

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

std::string shell_word(std::string const& text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/%@";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string quoted = "'";
  for (char const letter : text) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted + "'";
}

std::string allocator_line(MemoryConfig const& memory) {
  if (memory.allocator != AllocatorKind::pytorch || memory.allocator_settings.empty()) return "";
  return "export PYTORCH_CUDA_ALLOC_CONF=" + shell_word(memory.allocator_settings) + "\n";
}

}  // namespace stagecraft
