#include "libsim/plan/rank_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "libsim/host/parallel_for.hpp"
#include "libsim/plan/received_rows.hpp"

namespace stagecraft {

std::vector<RankMemory> memory_by_rank(TrainingPlan const& plan, int jobs) {
  std::vector<RankMemory> all;
  if (!plan.forced || !plan.ranks.ranks.empty()) {
    all.push_back({0, plan.groups.ranks_per_stage(), peak_memory(plan)});
    return all;
  }
  for (auto const& [rank, ranks] : ReceivedRows{plan}.distinct_ranks()) {
    all.push_back({rank, ranks, {}});
  }
  parallel_for(jobs, all.size(), [&](std::size_t i) {
    all[i].stages = peak_memory(plan_of_ranks(plan, {{all[i].rank}}));
  });
  return all;
}

RankMemory const& fullest(std::vector<RankMemory> const& ranks, std::size_t stage) {
  return *std::max_element(ranks.begin(), ranks.end(),
                           [&](RankMemory const& a, RankMemory const& b) {
                             return a.stages[stage].at_peak.sum() < b.stages[stage].at_peak.sum();
                           });
}

RankMemory const& emptiest(std::vector<RankMemory> const& ranks, std::size_t stage) {
  return *std::min_element(ranks.begin(), ranks.end(),
                           [&](RankMemory const& a, RankMemory const& b) {
                             return a.stages[stage].at_peak.sum() < b.stages[stage].at_peak.sum();
                           });
}

}  // namespace stagecraft
