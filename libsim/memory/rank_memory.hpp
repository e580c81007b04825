#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/memory/stage_memory.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The memory of the stages for ranks that need the same in all of them.
struct RankMemory {
  int rank = 0;   ///< the first of these ranks, by its number in its stage
  int ranks = 1;  ///< how many ranks of a stage need the same
  std::vector<StageMemory> stages;
};

/// The memory of all ranks whose experts compute different numbers of rows. One entry if they do
/// not differ. Uses up to `jobs` threads.
std::vector<RankMemory> memory_by_rank(TrainingPlan const& plan, int jobs);

/// How the memory of the ranks of a stage differs, if their experts compute different numbers of
/// rows.
struct RankSpread {
  int distinct = 1;  ///< ranks whose memory differs
  int fullest = 0;   ///< number in its stage of the rank that holds most, the first of several
  int emptiest = 0;  ///< number of the rank that holds least
  std::int64_t least = 0;  ///< peak of the rank that holds least
};

/// The memory of the rank of a stage that holds most.
struct FullestMemory {
  StageMemory memory;
  std::optional<RankSpread> ranks;  ///< only if its ranks differ

  /// The number of that rank in its stage.
  int rank() const { return ranks ? ranks->fullest : 0; }
};

/// The memory of each stage, without workspace: the only answer to what a stage holds. The rank
/// that holds most may differ from stage to stage. Uses up to `jobs` threads.
std::vector<FullestMemory> fullest_memory(TrainingPlan const& plan, int jobs);

}  // namespace stagecraft
