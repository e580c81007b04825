#pragma once

#include <vector>

#include "libsim/model/op.hpp"
#include "libsim/plan/training_config.hpp"

namespace stagecraft {

/// Where a rank of the job stands in its groups.
struct RankPlace {
  int tensor = 0;    ///< 0 to t - 1
  int data = 0;      ///< replica, 0 to d - 1
  int pipeline = 0;  ///< stage, 0 to p - 1

  friend bool operator==(RankPlace const&, RankPlace const&) = default;
};

/// Ranks are numbered tensor fastest, then data, then pipeline (see ParallelLayout).
/// Pre: 0 <= rank < world_size(layout).
RankPlace place_of(ParallelLayout const& layout, int rank);
int rank_of(ParallelLayout const& layout, RankPlace const& place);

/// Ranks that a collective of `rank` joins, in rank order: the order in which their tensors are
/// summed and gathered. For `embedding`, pre: the rank is of the first or the last stage.
std::vector<int> group_members(TrainingConfig const& config, CollectiveGroup group, int rank);

}  // namespace stagecraft
