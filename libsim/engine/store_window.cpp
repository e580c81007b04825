#include "libsim/engine/store_window.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/verdict.hpp"
#include "libsim/memory/stage_memory.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/plan/rank_programs.hpp"
#include "libsim/plan/received_rows.hpp"
#include "libsim/plan/stage_tasks.hpp"
#include "libsim/schedule/repeated_windows.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/schedule/store_window.hpp"
#include "libsim/training/run_schedule.hpp"

namespace stagecraft {
namespace {

/// The memory moves of one rank of each stage.
struct RankMoves {
  RankMoves(TrainingPlan const& of, int rank) : plan{of}, programs{of, rank} {}

  TrainingPlan const& plan;
  RankPrograms programs;
  MemoryMoves moves{plan, *programs};
};

/// The memory of a stage for each number of microbatches that it could store per window. Only the
/// programs that its chunks run depend on the number. The step moves no memory, and a backward
/// whose gradients are reduced piece by piece moves it as the whole backward does. So the schedule
/// and the programs of the chunks are enough.
class WindowMemory {
 public:
  /// Pre: the schedule is that of the plan, whose chunks have stored programs.
  WindowMemory(RankMoves& rank, PipelineSchedule const& schedule, StageId stage)
      : resident_{resident_memory(rank.plan.stages[stage]).sum()} {
    StagePlan const& of = rank.plan.stages[stage];
    int const some = 1;  // stored per window: the windows repeat in the same way for every number
    RepeatedWindows windows = rank.plan.microbatch_stride == 0
                                  ? repeat_windows(schedule, stage, some)
                                  : RepeatedWindows{.order = unroll(schedule.stages[stage])};
    WindowPlaces places{schedule.shape, stage};
    std::vector<Task> stored;
    std::vector<Task> recomputed;
    places_.resize(windows.order.entries.size());
    for (std::size_t i = 0; i < places_.size(); ++i) {
      IssueEntry& entry = windows.order.entries[i];
      if (entry.kind != IssueEntry::Kind::run) continue;
      ChunkRun const run = schedule.run_of(entry);
      places_[i] = places.of(run);
      entry.task = static_cast<std::int32_t>(stored.size());
      stored.push_back(whole_task(rank.plan, of, run, TaskVariant::stored));
      recomputed.push_back(whole_task(rank.plan, of, run, TaskVariant::policy));
    }
    stored_ = rank.moves.of(windows.order.entries, stored, windows.order.transfers);
    recomputed_ = rank.moves.of(windows.order.entries, recomputed, windows.order.transfers);
    program_.entries = windows.order.entries;
    insert_repeat(program_, windows, 0);
  }

  /// The bytes that a rank holds at its peak, without workspace, if it stores `count` microbatches
  /// per window.
  std::int64_t peak(int count) const {
    std::vector<MemoryMove const*> moves = recomputed_;
    for (std::size_t i = 0; i < moves.size(); ++i) {
      if (places_[i] < count) moves[i] = stored_[i];
    }
    if (program_.window_repeat != StageProgram::none) {
      moves.insert(moves.begin() + program_.window_repeat, nullptr);
    }
    return follow_sum(program_, moves, resident_);
  }

 private:
  std::int64_t resident_;
  StageProgram program_;
  /// Position of each run's forward in its window, without the repeat.
  std::vector<std::int32_t> places_;
  std::vector<MemoryMove const*> stored_;
  std::vector<MemoryMove const*> recomputed_;
};

/// One rank of a stage for each way to allocate: no two of them allocate alike, and every other
/// rank allocates as one of them.
std::vector<int> distinct_ranks(TrainingPlan const& plan) {
  if (!plan.differs_by_rank()) return {0};
  std::vector<int> distinct;
  for (auto const& [rank, ranks] : ReceivedRows{plan}.distinct_ranks()) distinct.push_back(rank);
  return distinct;
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
  TrainingPlan const plan = make_programs(stored);
  std::deque<RankMoves> ranks;
  for (int const rank : distinct_ranks(plan)) ranks.emplace_back(plan, rank);
  CostModel const cost{system, plan};
  PipelineSchedule const schedule = make_pipeline_schedule(schedule_shape(config));
  std::int64_t const limit =
      (room_for(config.memory, system.accelerator) - cost.workspace()).count();
  for (StageId const stage : plan.stages.ids()) {
    StoreMicrobatches& wanted = config.recompute[stage.index()].store_microbatches;
    if (!wanted.automatic) continue;
    std::vector<WindowMemory> memories;
    memories.reserve(ranks.size());
    for (RankMoves& rank : ranks) memories.emplace_back(rank, schedule, stage);
    auto const fits = [&](int count) {
      return std::ranges::all_of(
          memories, [&](WindowMemory const& memory) { return memory.peak(count) <= limit; });
    };
    // From the largest number down: storing one more can lower a peak that recomputation makes, so
    // a number that does not fit says nothing about larger ones.
    wanted = {.count = store_window(schedule.shape, stage)};
    while (wanted.count > 0 && !fits(wanted.count)) --wanted.count;
  }
  bool const is_uniform =
      std::equal(config.recompute.begin() + 1, config.recompute.end(), config.recompute.begin());
  if (is_uniform) config.recompute.resize(1);
  return config;
}

}  // namespace stagecraft
