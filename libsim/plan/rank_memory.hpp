#pragma once

#include <optional>
#include <vector>

#include "libsim/plan/stage_memory.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The memory of the stages for ranks that are alike in all of them.
struct RankMemory {
  int rank = 0;   ///< the first of them, by its number in its stage
  int ranks = 1;  ///< how many of a stage are like it
  std::vector<StageMemory> stages;
};

/// The memory of all ranks whose experts compute different numbers of rows: each allocates what the
/// plan made for it says. One entry if they do not differ. Uses up to `jobs` threads.
std::vector<RankMemory> memory_by_rank(TrainingPlan const& plan, int jobs);

/// The entry in which a stage holds most, the first of several.
RankMemory const& fullest(std::vector<RankMemory> const& ranks, std::size_t stage);
/// The entry in which it holds least.
RankMemory const& emptiest(std::vector<RankMemory> const& ranks, std::size_t stage);

}  // namespace stagecraft
