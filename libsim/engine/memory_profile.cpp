#include "libsim/engine/memory_profile.hpp"

#include <algorithm>

namespace stagecraft {

void MemoryProfile::append(MemoryProfile const& next) {
  if (net.sum() + next.peak > peak) {
    peak = net.sum() + next.peak;
    at_peak = net + next.at_peak;
    peak_op = -1;
  }
  activation_peak = std::max(activation_peak, net.activation_sum() + next.activation_peak);
  net += next.net;
}

MemoryChanges memory_changes(BlockProgram const& block, Pass pass) {
  std::size_t const count = block.ops(pass).size();
  MemoryChanges changes{.before = std::vector<CategoryBytes>(count),
                        .after = std::vector<CategoryBytes>(count)};
  for (BufferLife const& life : block.lives) {
    Tensor const& tensor = block.tensor(life.buffer);
    std::int64_t const bytes = tensor.bytes().count();
    if (life.allocate_pass == pass && life.allocate >= 0) {
      changes.before[static_cast<std::size_t>(life.allocate)][tensor.category] += bytes;
    }
    if (life.release_pass == pass && life.release >= 0) {
      changes.after[static_cast<std::size_t>(life.release)][tensor.category] -= bytes;
    }
  }
  return changes;
}

MemoryProfile profile_memory(BlockProgram const& block, Pass pass) {
  MemoryChanges const changes = memory_changes(block, pass);
  MemoryProfile profile;
  for (std::size_t i = 0; i < changes.before.size(); ++i) {
    profile.net += changes.before[i];
    if (profile.net.sum() > profile.peak) {
      profile.peak = profile.net.sum();
      profile.at_peak = profile.net;
      profile.peak_op = static_cast<std::int32_t>(i);
    }
    profile.activation_peak = std::max(profile.activation_peak, profile.net.activation_sum());
    profile.net += changes.after[i];
  }
  return profile;
}

}  // namespace stagecraft
