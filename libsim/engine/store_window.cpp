#include "libsim/engine/store_window.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/memory_room.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/plan/received_rows.hpp"
#include "libsim/plan/schedule_layout.hpp"
#include "libsim/plan/window_memory.hpp"

namespace stagecraft {
namespace {

/// The programs of one rank of each stage, and what they do to memory.
struct RankPrograms {
  explicit RankPrograms(TrainingPlan made) : plan{std::move(made)} {}

  TrainingPlan plan;
  TaskMemories tasks{plan};
  MessageMemories messages{plan};
};

/// The choices of a rank of which no two allocate alike.
std::vector<RankChoice> distinct_choices(TrainingPlan const& plan) {
  if (!plan.differs_by_rank()) return {RankChoice{}};
  std::vector<RankChoice> choices;
  for (auto const& [rank, ranks] : ReceivedRows{plan}.distinct_ranks()) choices.push_back({{rank}});
  return choices;
}

}  // namespace

bool has_automatic_window(TrainingConfig const& config) {
  return std::any_of(config.recompute.begin(), config.recompute.end(),
                     [](auto const& policy) { return policy.store_microbatches.automatic; });
}

TrainingConfig resolve_store_windows(TrainingConfig config, System const& system) {
  if (!has_automatic_window(config)) return config;
  auto const stages = static_cast<std::size_t>(config.parallel.pipeline);
  if (config.recompute.size() == 1) config.recompute.resize(stages, config.recompute.front());
  TrainingConfig stored = config;
  for (RecomputePolicy& policy : stored.recompute) {
    if (policy.store_microbatches.automatic) policy.store_microbatches = {.count = 1};
  }
  bool const splits = splits_backward(checked_shape(schedule_shape(stored)));
  TrainingPlan const plan = make_programs(stored);
  std::deque<RankPrograms> ranks;
  for (RankChoice& choice : distinct_choices(plan)) {
    ranks.emplace_back(make_programs(stored, plan.placement, splits, std::move(choice)));
  }
  CostModel const cost{system, plan};
  PipelineSchedule const schedule = make_pipeline_schedule(schedule_shape(config));
  std::int64_t const limit =
      (room_for(config.memory, system.accelerator) - cost.workspace()).count();
  for (StageId const stage : plan.stages.ids()) {
    StoreMicrobatches& wanted = config.recompute[stage.index()].store_microbatches;
    if (!wanted.automatic) continue;
    std::vector<WindowMemory> memories;
    memories.reserve(ranks.size());
    for (RankPrograms& rank : ranks) {
      memories.emplace_back(rank.plan, schedule, rank.plan.stages[stage], rank.tasks,
                            rank.messages);
    }
    auto const fits = [&](int count) {
      return std::ranges::all_of(
          memories, [&](WindowMemory const& memory) { return memory.fits(count, limit); });
    };
    // From the top: storing one more can lower a peak that recomputation makes, so that a number
    // that does not fit says nothing of the larger ones.
    wanted = {.count = memories.front().window()};
    while (wanted.count > 0 && !fits(wanted.count)) --wanted.count;
  }
  bool const is_uniform =
      std::equal(config.recompute.begin() + 1, config.recompute.end(), config.recompute.begin());
  if (is_uniform) config.recompute.resize(1);
  return config;
}

}  // namespace stagecraft
