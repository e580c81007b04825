#include "libsim/program/memory_profile.hpp"

#include <algorithm>

#include "libsim/program/pass_buffers.hpp"

namespace stagecraft {

void MemoryProfile::allocate(Category category, std::int64_t bytes) {
  net[category] += bytes;
  activation_peak = std::max(activation_peak, net.activation_sum());
  if (net.sum() <= peak) return;
  peak = net.sum();
  at_peak = net;
  peak_op = -1;
}

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
  MemoryProfile profile;
  PassBuffers const buffers{block, pass};
  for (BufferMove const& move : buffers.all()) {
    if (!move.allocates) {
      profile.release(move.category, move.bytes);
      continue;
    }
    std::int64_t const peak_before = profile.peak;
    profile.allocate(move.category, move.bytes);
    if (profile.peak > peak_before) profile.peak_op = move.op;
  }
  return profile;
}

}  // namespace stagecraft
