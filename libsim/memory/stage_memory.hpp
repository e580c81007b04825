#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libsim/memory/memory_moves.hpp"
#include "libsim/plan/rank_programs.hpp"

namespace stagecraft {

/// Memory of one rank of a stage over an iteration, without workspace, in bytes. It follows the
/// issue order, so it does not depend on any cost.
struct StageMemory {
  CategoryBytes at_peak;             ///< at the first instant at which the sum is largest
  std::int64_t activation_peak = 0;  ///< largest activations + recomputed + communication
  std::int32_t peak_entry = 0;       ///< entry of the issue order that reaches the peak
  std::int32_t peak_block = 0;       ///< MemoryProfile::peak_block and peak_op of that entry
  std::int32_t peak_op = -1;
  std::int32_t in_flight_chunks =
      0;  ///< most (microbatch, chunk) pairs from forward to the end of backward
};

/// Memory of a rank at the start of an iteration: its state (StagePlan::state).
CategoryBytes resident_memory(StagePlan const& stage);

/// The memory of a stage whose i-th entry makes moves[i]. It follows the first and the last run of
/// repeated entries. Memory changes by the same amounts in each run, so the peak is in one of
/// these.
StageMemory follow(StageProgram const& program,
                   std::span<MemoryMove const* const> moves,
                   CategoryBytes const& resident);

/// Only the largest sum, in a fraction of the time.
std::int64_t follow_sum(StageProgram const& program,
                        std::span<MemoryMove const* const> moves,
                        std::int64_t resident);

/// The memory of one stage on the ranks whose programs `moves` has.
StageMemory peak_memory(StagePlan const& stage, MemoryMoves& moves);
StageMemory peak_memory(StageRank const& rank);
/// The memory of a rank of each stage, by its number in the stage. fullest_memory() has the memory
/// of the rank that holds most.
std::vector<StageMemory> peak_memory(TrainingPlan const& plan, int rank = 0);

}  // namespace stagecraft
