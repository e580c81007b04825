#include "libsim/engine/memory_profile.hpp"

#include <algorithm>
#include <vector>

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

MemoryProfile profile_memory(BlockProgram const& block, Pass pass) {
  std::size_t const count = block.ops(pass).size();
  std::vector<CategoryBytes> allocated(count);
  std::vector<CategoryBytes> released(count);
  for (BufferLife const& life : block.lives) {
    Tensor const& tensor = block.tensor(life.buffer);
    std::int64_t const bytes = tensor.bytes().count();
    if (life.allocate_pass == pass && life.allocate >= 0) {
      allocated[static_cast<std::size_t>(life.allocate)][tensor.category] += bytes;
    }
    if (life.release_pass == pass && life.release >= 0) {
      released[static_cast<std::size_t>(life.release)][tensor.category] -= bytes;
    }
  }
  MemoryProfile profile;
  for (std::size_t i = 0; i < count; ++i) {
    profile.net += allocated[i];
    if (profile.net.sum() > profile.peak) {
      profile.peak = profile.net.sum();
      profile.at_peak = profile.net;
      profile.peak_op = static_cast<std::int32_t>(i);
    }
    profile.activation_peak = std::max(profile.activation_peak, profile.net.activation_sum());
    profile.net += released[i];
  }
  return profile;
}

}  // namespace stagecraft
