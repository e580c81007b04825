#include "apps/stagecraft/plan/plan_answer.hpp"

#include <algorithm>

#include "apps/stagecraft/plan/plan_figures.hpp"

namespace stagecraft {
double demerit_of(ShownPlan const& shown, PlanRank rank) {
  PlanOptions const& options = *shown.options;
  switch (rank) {
    case PlanRank::tokens:
      return -tokens_per_gpu(*shown, options);
    case PlanRank::cost:
      return *figures_of(*shown, options).cost_per_trillion_tokens;
    case PlanRank::energy:
      return *figures_of(*shown, options).joules_per_token;
    case PlanRank::iteration:
      break;
  }
  return to_seconds(shown->simulation.iteration);
}

std::vector<ShownPlan> plans_of(ClusterAnswer const& cluster,
                                std::vector<FoundPlan> const& plans,
                                std::vector<std::size_t> const& shown) {
  std::vector<ShownPlan> list;
  list.reserve(shown.size());
  for (std::size_t const i : shown) list.push_back({&plans[i], cluster.options, &cluster});
  return list;
}

void rank_plans(PlanAnswer& answer, PlanRank rank) {
  std::size_t const clusters = answer.clusters.size();
  for (ClusterAnswer const& cluster : answer.clusters) {
    auto const top = static_cast<std::size_t>(cluster.options->request.top);
    std::size_t const share = (top + clusters - 1) / clusters;
    for (FoundPlan const& plan : cluster.result.best) {
      if (&plan == cluster.result.best.data() + share) break;
      answer.best.push_back({&plan, cluster.options, &cluster});
    }
  }
  std::ranges::stable_sort(answer.best, {},
                           [&](ShownPlan const& plan) { return demerit_of(plan, rank); });
}

}  // namespace stagecraft
