#pragma once

#include <cstdint>
#include <vector>

#include "libsim/schedule/orders/interleaving.hpp"
#include "libsim/schedule/orders/pipeline_order.hpp"
#include "libsim/schedule/schedule_shape.hpp"

namespace stagecraft {

/// Forwards that a stage runs before it alternates: GPipe n; 1F1B min(p-r-1, n); interleaved
/// min(2(p-r-1) + (m-1)G, nm), where G is the group. Pre: the shape is legal, its group filled in.
/// Source: Megatron-LM core/pipeline_parallel/schedules.py, get_pp_rank_microbatches.
int warmup_forwards(ScheduleShape const& shape, StageId stage);

/// Gives the chunk and microbatch of the k-th forward, and of the k-th backward, of every stage.
/// Groups of G microbatches (the last may be shorter) go through the chunks one after the other,
/// backward from the last chunk to the first. With one chunk this is the order of the microbatches.
/// Source: Megatron-LM core/pipeline_parallel/schedules.py, get_schedule_table.
class VirtualOrder {
 public:
  explicit VirtualOrder(ScheduleShape const& shape);

  int size() const { return static_cast<int>(forwards_.size()); }  ///< n * m
  ChunkRun forward(int k) const { return forwards_[static_cast<std::size_t>(k)]; }
  ChunkRun backward(int k) const {
    ChunkRun const& forward = forwards_[static_cast<std::size_t>(k)];
    return {Pass::backward, forward.microbatch, mirrored(forward.chunk, chunks_)};
  }
  /// The number of consecutive forwards, from the k-th on, that run the same chunk. As many
  /// backwards from the k-th on do. 1 after the last.
  int alike(int k) const;

 private:
  int chunks_;
  int group_;
  std::vector<ChunkRun> forwards_;
};

/// The computations of a stage in order: the warm-up forwards, then alternating forwards and
/// backwards, then the remaining backwards.
std::vector<ChunkRun> stage_order(VirtualOrder const& order, int warmup);

}  // namespace stagecraft
