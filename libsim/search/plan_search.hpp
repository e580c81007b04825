#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/search/candidate.hpp"
#include "libsim/search/search_request.hpp"

namespace stagecraft {

/// A plan of the answer. Its numbers are those of simulate().
struct FoundPlan {
  TrainingConfig config;
  Simulation simulation;

  /// Of its fullest stage.
  std::int64_t peak() const;
};

/// How a plan search came out.
struct SearchResult {
  std::int64_t considered = 0;  ///< plans, no two alike
  std::int64_t simulated = 0;
  std::int64_t dismissed_by_memory = 0;
  std::int64_t dismissed_by_bound = 0;
  /// The fastest plans that fit, up to K; of equally fast ones the one that holds less first, then
  /// the earlier one of the search space.
  std::vector<FoundPlan> best;
  /// The plans than which no other is both faster and holds less, fastest first, up to
  /// `front_reach` times the time of the best.
  std::vector<FoundPlan> front;
  std::optional<NearMiss> closest;  ///< where nothing fits
};

/// How much slower than the best a plan of the front may be.
inline constexpr double front_reach = 1.5;

/// Searches for the plans with the shortest iteration among those that fit in memory.
///
/// A plan is dismissed without simulation only if its memory cannot fit (known exactly), or if its
/// lower bound of time is above the K-th best and a simulated plan is faster than that bound and
/// holds no more. Plans are taken up by ascending bound, in batches whose size does not depend on
/// `jobs`; so neither do result and counts.
/// Pre: the base configuration and the system were checked by their readers.
SearchResult search_plans(SearchRequest const& request);

}  // namespace stagecraft
