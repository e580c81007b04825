#include "libsim/engine/store_window.hpp"

#include <algorithm>
#include <cstdint>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/memory_walk.hpp"
#include "libsim/engine/rank_memory.hpp"
#include "libsim/engine/task_costs.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/plan/stage_exchanges.hpp"
#include "libsim/plan/stage_order.hpp"
#include "libsim/plan/stage_tasks.hpp"

namespace stagecraft {
namespace {

/// Follows a stage's memory through its issue order until it exceeds a limit.
class LimitedWalk {
 public:
  LimitedWalk(TrainingPlan const& plan,
              ScheduleShape const& shape,
              TaskCosts& prices,
              MessageMoves& messages,
              std::int64_t limit,
              StagePlan& rank)
      : prices_{prices},
        messages_{messages},
        rank_{rank},
        tasks_{plan, shape, rank},
        is_blocking_{shape.p2p == P2p::blocking},
        limit_{limit},
        sum_{resident_memory(rank).sum()},
        fits_{sum_ <= limit} {}

  bool fits() const { return fits_; }

  // A backward whose gradients are reduced piece by piece moves memory as the whole does.
  void run(ChunkRun const& run) {
    if (!fits_) return;
    bool const is_forward = run.kind == ChunkRun::Kind::forward;
    std::int32_t const task = is_forward ? tasks_.forward(run) : tasks_.backward(run);
    move(prices_.of(rank_, rank_.tasks[static_cast<std::size_t>(task)]).memory);
  }
  void transfer(Transfer const& transfer, int /*row*/) {
    if (fits_) transfers_.push_back(transfer);
  }
  void post(std::int32_t first, std::int32_t count) {
    if (fits_ && !is_blocking_) message(MessageMoves::Kind::post, first, count);
  }
  void wait(std::int32_t first, std::int32_t count) {
    if (fits_) {
      message(is_blocking_ ? MessageMoves::Kind::exchange : MessageMoves::Kind::wait, first, count);
    }
  }
  void begin_stretch() {}
  int repeat(int /*times*/) { return 1; }

 private:
  void message(MessageMoves::Kind kind, std::int32_t first, std::int32_t count) {
    MessageMoves::Code code;
    for (std::int32_t i = first; i < first + count; ++i) {
      Transfer const& transfer = transfers_[static_cast<std::size_t>(i)];
      code.add(transfer.payload, transfer.end);
    }
    move(messages_.of(kind, code));
  }
  void move(MemoryMove const& move) {
    fits_ = sum_ + move.peak <= limit_;
    sum_ += move.net_sum;
  }

  TaskCosts& prices_;
  MessageMoves& messages_;
  StagePlan& rank_;
  StageTasks tasks_;
  std::vector<Transfer> transfers_;
  bool is_blocking_;
  std::int64_t limit_;
  std::int64_t sum_;
  bool fits_;
};

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
  TrainingPlan plan = make_programs(stored);
  CostModel const cost{system, plan};
  TaskCosts prices{plan, cost};
  MessageMoves messages{plan};
  ScheduleShape const shape = checked_shape(schedule_shape(config));
  VirtualOrder const order{shape};
  std::int64_t const limit = system.accelerator.memory.value.count() -
                             config.memory.reserve.count() - cost.workspace().count();
  for (std::size_t r = 0; r < stages; ++r) {
    StoreMicrobatches& wanted = config.recompute[r].store_microbatches;
    if (!wanted.automatic) continue;
    int const stage = static_cast<int>(r);
    wanted = {.count = store_window(shape, stage)};
    // From the top: storing one more can lower a peak that recomputation makes, so that a number
    // that does not fit says nothing of the larger ones.
    for (; wanted.count > 0; --wanted.count) {
      plan.config.recompute[r].store_microbatches = wanted;
      StagePlan rank = plan.stages[r];
      LimitedWalk walk{plan, shape, prices, messages, limit, rank};
      write_stage(shape, order, stage, walk);
      if (walk.fits()) break;
    }
  }
  bool const is_uniform =
      std::equal(config.recompute.begin() + 1, config.recompute.end(), config.recompute.begin());
  if (is_uniform) config.recompute.resize(1);
  return config;
}

}  // namespace stagecraft
