#include "libsim/plan/stage_order.hpp"

#include <algorithm>
#include <cstddef>

namespace stagecraft {

int warmup_forwards(ScheduleShape const& shape, int stage) {
  int const forwards = shape.microbatches * shape.chunks;
  int const behind = shape.stages - stage - 1;
  switch (shape.kind) {
    case ScheduleKind::gpipe:
      return forwards;
    case ScheduleKind::one_f_one_b:
      return std::min(behind, forwards);
    case ScheduleKind::interleaved:
      return std::min(2 * behind + (shape.chunks - 1) * shape.group, forwards);
  }
  return forwards;
}

VirtualOrder::VirtualOrder(ScheduleShape const& shape)
    : chunks_{shape.chunks},
      group_{shape.kind == ScheduleKind::interleaved ? shape.group : shape.microbatches} {
  int const n = shape.microbatches;
  forwards_.reserve(static_cast<std::size_t>(n) * static_cast<std::size_t>(shape.chunks));
  for (int first = 0; first < n; first += group_) {
    int const last = std::min(first + group_, n);
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      for (int microbatch = first; microbatch < last; ++microbatch) {
        forwards_.push_back({ChunkRun::Kind::forward, microbatch, chunk});
      }
    }
  }
}

int VirtualOrder::alike(int k) const {
  if (k >= size()) return 1;
  if (chunks_ == 1) return size() - k;
  int const first = k - k % (group_ * chunks_);  // of the group's forwards
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
