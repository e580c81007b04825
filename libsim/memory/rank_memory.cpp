#include "libsim/memory/rank_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "libsim/host/worker_pool.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/received_rows.hpp"

namespace stagecraft {

std::vector<RankMemory> memory_by_rank(TrainingPlan const& plan, int jobs) {
  std::vector<RankMemory> all;
  if (!plan.differs_by_rank()) {
    all.push_back({0, plan.groups.ranks_per_stage(), peak_memory(plan)});
    return all;
  }
  for (auto const& [rank, ranks] : ReceivedRows{plan}.distinct_ranks()) {
    all.push_back({rank, ranks, {}});
  }
  parallel_for(jobs, all.size(),
               [&](std::size_t i) { all[i].stages = peak_memory(plan, all[i].rank); });
  return all;
}

std::vector<FullestMemory> fullest_memory(TrainingPlan const& plan, int jobs) {
  std::vector<RankMemory> const by_rank = memory_by_rank(plan, jobs);
  std::vector<FullestMemory> result;
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    auto const holds_less = [stage](RankMemory const& a, RankMemory const& b) {
      return a.stages[stage].at_peak.sum() < b.stages[stage].at_peak.sum();
    };
    auto const& fullest = *std::max_element(by_rank.begin(), by_rank.end(), holds_less);
    FullestMemory& made = result.emplace_back();
    made.memory = fullest.stages[stage];
    if (by_rank.size() == 1) continue;
    auto const& emptiest = *std::min_element(by_rank.begin(), by_rank.end(), holds_less);
    made.ranks = RankSpread{.distinct = static_cast<int>(by_rank.size()),
                            .fullest = fullest.rank,
                            .emptiest = emptiest.rank,
                            .least = emptiest.stages[stage].at_peak.sum()};
  }
  return result;
}

}  // namespace stagecraft
