#include "libsim/engine/rank_busy.hpp"

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/player/task_profile.hpp"
#include "libsim/plan/distinct_tasks.hpp"
#include "libsim/plan/rank_programs.hpp"
#include "libsim/plan/received_rows.hpp"

namespace stagecraft {
namespace {

/// The computing time of a rank of each stage in an iteration.
std::vector<SimTime> computed(TrainingPlan const& plan, int rank, CostModel const& cost) {
  RankPrograms const own{plan, rank};
  std::vector<BlockProfile> const blocks = profile_blocks(*own, cost);
  DistinctTasks<TaskProfile> known{*own};
  std::vector<SimTime> sums;
  for (StagePlan const& stage : plan.stages) {
    SimTime& sum = sums.emplace_back(0);
    std::vector<SimTime> durations;
    for (Task const& task : stage.tasks) {
      durations.push_back(
          known.of(task, [&] { return profile_task(*own, stage, task, blocks, cost); }).duration);
    }
    visit_entries(stage.program, [&](IssueEntry const& entry, std::int32_t /*advance*/) {
      if (entry.kind != IssueEntry::Kind::run) return;
      auto const task = static_cast<std::size_t>(entry.task);
      if (stage.tasks[task].stream == Stream::compute) sum += durations[task];
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
  CostModel const cost{system, plan};
  std::vector<SimTime> const of_hottest = computed(plan, hottest, cost);
  std::vector<SimTime> const of_coldest = computed(plan, coldest, cost);
  std::vector<RankBusy> made;
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    made.push_back({hottest, coldest, of_hottest[stage], of_coldest[stage]});
  }
  return made;
}

}  // namespace stagecraft
