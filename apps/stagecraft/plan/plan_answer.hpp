#pragma once

#include <cstddef>
#include <vector>

#include "apps/stagecraft/plan/plan_question.hpp"
#include "libsim/search/plan_search.hpp"

namespace stagecraft {

/// What the search on one cluster found.
struct ClusterAnswer {
  PlanOptions const* options = nullptr;
  SearchResult result;
  double seconds = 0;  ///< wall time of the search

  bool has_plans() const { return !result.best.empty(); }
};

/// A plan of an answer, with what was asked of its cluster. Both outlive it.
struct ShownPlan {
  FoundPlan const* plan = nullptr;
  PlanOptions const* options = nullptr;
  ClusterAnswer const* cluster = nullptr;

  FoundPlan const& operator*() const { return *plan; }
  FoundPlan const* operator->() const { return plan; }
};

/// What all searches found.
struct PlanAnswer {
  std::vector<ClusterAnswer> clusters;  ///< in the order of the question
  /// K plans, of each cluster its best K / clusters, rounded up; best first by the question's rank.
  /// Equal plans keep the order of the clusters.
  std::vector<ShownPlan> best;

  bool is_comparison() const { return clusters.size() > 1; }
};

/// The plans of a list that `shown` names by their indices.
std::vector<ShownPlan> plans_of(ClusterAnswer const& cluster,
                                std::vector<FoundPlan> const& plans,
                                std::vector<std::size_t> const& shown);

/// How bad a plan is by a rank: less is better.
double demerit_of(ShownPlan const& shown, PlanRank rank);

/// Merges the plans of several clusters. The answers must not move afterwards.
void rank_plans(PlanAnswer& answer, PlanRank rank);

}  // namespace stagecraft
