#include "apps/stagecraft/plan/plan_rivals.hpp"

#include <algorithm>

#include "apps/stagecraft/plan/plan_figures.hpp"
#include "libsim/interval/time_interval.hpp"

namespace stagecraft {

double probability_best(FoundPlan const& best, FoundPlan const& other, PlanOptions const& options) {
  return probability_faster(to_seconds(best.simulation.iteration),
                            to_seconds(other.simulation.iteration),
                            interval_of_plan(best, options).regime);
}

std::vector<std::size_t> rivals_of(SearchResult const& result, PlanOptions const& options) {
  std::vector<std::size_t> rivals;
  for (std::size_t i = 1; i < result.best.size(); ++i) {
    if (probability_best(result.best.front(), result.best[i], options) < separable_probability) {
      rivals.push_back(i);
    }
  }
  return rivals;
}

std::vector<std::size_t> near_ties(SearchResult const& result, PlanOptions const& options) {
  std::vector<std::size_t> ties = rivals_of(result, options);
  if (ties.empty()) return ties;
  ties.insert(ties.begin(), 0);
  std::ranges::stable_sort(ties, {}, [&](std::size_t i) { return result.best[i].peak(); });
  return ties;
}

nlohmann::ordered_json next_measurement(SearchResult const& result, PlanOptions const& options) {
  std::vector<std::size_t> const rivals = rivals_of(result, options);
  if (rivals.empty()) {
    return {
        {"plan", 0},
        {"reason",
         "an iteration of the best plan: with `stagecraft fit --measured` the times of all plans "
         "are then as far off as plans of one machine differ"}};
  }
  return {{"plan", rivals.front()},
          {"reason",
           "an iteration of this plan and one of the best: the two are least surely separated"}};
}

}  // namespace stagecraft
