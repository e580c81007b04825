#pragma once

#include <vector>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/player/task_profile.hpp"
#include "libsim/memory/memory_moves.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/schedule/orders/chunk_costs.hpp"
#include "libsim/schedule/orders/memory_changes.hpp"

namespace stagecraft {

/// The data of a plan's chunks for generators of orders: times in seconds, memory in bytes. The
/// plan, whose backwards are split, and the system must outlive it.
class AverageChunk {
 public:
  AverageChunk(TrainingPlan const& plan, System const& system);

  /// The mean over all chunks, and the longest message.
  ChunkCosts costs() const;
  /// The costs of each virtual stage, each with the longest message of any.
  std::vector<ChunkCosts> stage_costs() const;

  /// The mean over all chunks. The three changes sum to 0, even if chunks hand something to each
  /// other. If an input gradient adds memory (gathered gradients of sequence parallelism), the
  /// forward reserves it: generators that fill a limit with forwards would otherwise be stuck.
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
