#include "libsim/plan/distinct_tasks.hpp"

#include <algorithm>

namespace stagecraft {

std::vector<std::int32_t> first_with_same_blocks(std::vector<ChunkProgram> const& chunks) {
  std::vector<std::int32_t> first;
  first.reserve(chunks.size());
  std::vector<std::int32_t> distinct;
  for (ChunkProgram const& chunk : chunks) {
    auto const same = std::find_if(distinct.begin(), distinct.end(), [&](std::int32_t other) {
      ChunkProgram const& known = chunks[static_cast<std::size_t>(other)];
      return known.blocks == chunk.blocks && known.keeps_output == chunk.keeps_output;
    });
    if (same == distinct.end()) {
      distinct.push_back(static_cast<std::int32_t>(first.size()));
      first.push_back(distinct.back());
    } else {
      first.push_back(*same);
    }
  }
  return first;
}

}  // namespace stagecraft
