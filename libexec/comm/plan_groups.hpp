#pragma once

#include <array>

#include "libsim/plan/rank_numbering.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

inline constexpr std::array all_groups{CollectiveGroup::tensor, CollectiveGroup::kv_replicas,
                                       CollectiveGroup::data,   CollectiveGroup::embedding,
                                       CollectiveGroup::model,  CollectiveGroup::job};

/// Whether a rank is member of a group of this kind: of the embedding's only where it holds one of
/// two copies.
inline bool joins(TrainingConfig const& config, CollectiveGroup group, int rank) {
  if (group != CollectiveGroup::embedding) return true;
  int const stage = place_of(config.parallel, rank).pipeline;
  int const last = config.parallel.pipeline - 1;
  return last > 0 && (stage == 0 || stage == last);
}

}  // namespace stagecraft
