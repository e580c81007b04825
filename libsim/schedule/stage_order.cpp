#include "libsim/schedule/stage_order.hpp"

#include <algorithm>
#include <cstddef>

#include "libsim/schedule/generators/generators.hpp"
#include "libsim/schedule/schedule_rules.hpp"

namespace stagecraft {

int warmup_forwards(ScheduleShape const& shape, StageId stage) {
  return rules_of(shape.kind).warmup(shape, stage);
}

VirtualOrder::VirtualOrder(ScheduleShape const& shape)
    : chunks_{shape.chunks},
      group_{shape.group > 0 ? shape.group : shape.microbatches},
      forwards_{grouped_forwards(shape.microbatches, chunks_, group_)} {}

int VirtualOrder::alike(int k) const {
  if (k >= size()) return 1;
  if (chunks_ == 1) return size() - k;
  int const first = k - k % (group_ * chunks_);  // first forward of the group
  int const microbatches = std::min(group_, (size() - first) / chunks_);
  return microbatches - (k - first) % microbatches;
}

std::vector<ChunkRun> stage_order(VirtualOrder const& order, int warmup) {
  std::vector<ChunkRun> runs;
  runs.reserve(2 * static_cast<std::size_t>(order.size()));
  for (int k = 0; k < warmup; ++k) runs.push_back(order.forward(k));
  for (int k = warmup; k < order.size(); ++k) {
    runs.push_back(order.forward(k));
    runs.push_back(order.backward(k - warmup));
  }
  for (int k = order.size() - warmup; k < order.size(); ++k) runs.push_back(order.backward(k));
  return runs;
}

}  // namespace stagecraft
