#include "libsim/engine/rank_busy.hpp"

#include "libsim/engine/player/costed_plan.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/received_rows.hpp"

namespace stagecraft {
namespace {

/// What the compute stream of each stage runs in an iteration.
std::vector<SimTime> computed(TrainingPlan const& plan, System const& system) {
  CostedPlan const costed{plan, system};
  std::vector<SimTime> sums;
  for (StagePlan const& stage : plan.stages) {
    SimTime& sum = sums.emplace_back(0);
    std::vector<TaskProfile> const& tasks = costed.tasks(stage.stage.index());
    visit_entries(stage.program, [&](IssueEntry const& entry, std::int32_t /*advance*/) {
      if (entry.kind != IssueEntry::Kind::run) return;
      auto const task = static_cast<std::size_t>(entry.task);
      if (stage.tasks[task].stream == Stream::compute) sum += tasks[task].duration;
    });
  }
  return sums;
}

}  // namespace

std::optional<std::vector<RankBusy>> busy_by_rank(TrainingPlan const& plan, System const& system) {
  if (!plan.differs_by_rank()) return std::nullopt;
  auto const ranks = hottest_and_coldest(ReceivedRows{plan});
  if (!ranks) return std::nullopt;
  auto const [hottest, coldest] = *ranks;
  TrainingPlan const hot = plan_of_ranks(plan, {{hottest}});
  TrainingPlan const cold = plan_of_ranks(plan, {{coldest}});
  std::vector<SimTime> const of_hottest = computed(hot, system);
  std::vector<SimTime> const of_coldest = computed(cold, system);
  std::vector<RankBusy> made;
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    made.push_back({hottest, coldest, of_hottest[stage], of_coldest[stage]});
  }
  return made;
}

}  // namespace stagecraft
