#pragma once

#include <vector>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/player/task_profile.hpp"
#include "libsim/memory/memory_moves.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/schedule/orders/chunk_costs.hpp"
#include "libsim/schedule/orders/memory_changes.hpp"

namespace stagecraft {

/// What the generators of orders know of a plan's chunks: times in seconds, memory in bytes. The
/// plan, whose backwards are split, and the system must outlive it.
class AverageChunk {
 public:
  AverageChunk(TrainingPlan const& plan, System const& system);

  /// The mean over all chunks, and the longest message.
  ChunkCosts costs() const;
  /// Of each virtual stage, with the longest message of any.
  std::vector<ChunkCosts> stage_costs() const;

  /// The mean over all chunks. The three sum to 0, also where chunks hand something to each other.
  /// Where an input gradient adds to what is held (gathered gradients of sequence parallelism), the
  /// forward reserves it: generators that fill a limit with forwards would be stuck behind them.
  MemoryChanges memory();

 private:
  double seconds(StagePlan const& stage, Pass pass, ChunkId chunk) const;
  double longest_message() const;
  double mean_bytes(Pass pass);

  TrainingPlan const& plan_;
  CostModel cost_;
  std::vector<BlockProfile> blocks_;
  MemoryMoves memories_;
};

}  // namespace stagecraft
