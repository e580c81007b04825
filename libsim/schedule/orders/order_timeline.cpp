#include "libsim/schedule/orders/order_timeline.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "libsim/schedule/orders/order_check.hpp"
#include "libsim/schedule/orders/order_text.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft {

namespace {

/// The input of a task from another virtual stage, or from its own one at the end of the model.
struct Awaited {
  ChunkRun run;  ///< a forward, or an input gradient that stands for a whole backward too
  VirtualStageId virtual_stage{};
};

/// Plays an order: every stage runs its tasks one after another, each as soon as its input is
/// there. Stages advance in turn as far as they can, until none does; a task that has not run then
/// waits for ever, which is an error. Times are integer ticks. run() ends the player's life.
class OrderPlayer {
 public:
  OrderPlayer(PipelineOrder const& order, ChunkCosts const& costs)
      : order_{order},
        costs_{costs},
        ticks_{costs, 5.0 * order.placement.virtual_stages() * order.microbatches},
        forward_ends_(static_cast<std::size_t>(order.placement.virtual_stages()) *
                      static_cast<std::size_t>(order.microbatches)),
        gradient_ends_(forward_ends_.size()),
        next_(order.stages.size()) {
    played_.stages.resize(order.stages.size());
    played_.ticks_per_unit = ticks_.ticks_per_unit();
  }

  PlayedOrder run() && {
    for (bool is_moving = true; is_moving;) {
      is_moving = false;
      for (std::size_t stage = 0; stage < order_.stages.size(); ++stage) {
        while (next_[stage] < order_.stages[stage].size() && advance(stage)) is_moving = true;
      }
    }
    refuse_waiting();
    for (StageRuns& stage : played_.stages) {
      played_.makespan = std::max(played_.makespan, stage.end);
      if (!stage.runs.empty()) stage.start = stage.runs.front().start;
    }
    return std::move(played_);
  }

 private:
  using Ends = std::vector<std::optional<SimTime>>;  ///< by virtual stage and microbatch

  std::optional<Awaited> need_of(std::size_t stage, ChunkRun const& run) const {
    Placement const& placement = order_.placement;
    VirtualStageId const here = placement.virtual_stage({StageId::of_index(stage), run.chunk});
    auto const need = [&](Pass pass, VirtualStageId there) {
      return Awaited{{pass, run.microbatch, placement.place(there).chunk}, there};
    };
    if (run.pass == Pass::forward) {
      if (placement.is_first(here)) return std::nullopt;
      return need(Pass::forward, previous(here));
    }
    if (!gives_gradient(run.pass)) return std::nullopt;
    if (placement.is_last(here)) return need(Pass::forward, here);
    return need(Pass::input_gradient, next(here));
  }

  std::size_t index(VirtualStageId virtual_stage, MicrobatchId microbatch) const {
    return virtual_stage.index() * static_cast<std::size_t>(order_.microbatches) +
           microbatch.index();
  }

  std::optional<SimTime> end_of(Awaited const& need) const {
    Ends const& ends = need.run.pass == Pass::forward ? forward_ends_ : gradient_ends_;
    return ends[index(need.virtual_stage, need.run.microbatch)];
  }

  /// Runs the stage's next task, or pair, unless it has to wait for one that has not run.
  bool advance(std::size_t stage) {
    auto const& tasks = order_.stages[stage];
    std::size_t const count = tasks[next_[stage]].is_paired ? 2 : 1;
    StageRuns& times = played_.stages[stage];
    SimTime sent = times.end;   // what the tasks need has been made everywhere
    SimTime start = times.end;  // it has arrived here
    for (std::size_t i = 0; i < count; ++i) {
      auto const need = need_of(stage, tasks[next_[stage] + i].run);
      if (!need) continue;
      auto const end = end_of(*need);
      if (!end) return false;
      bool const is_here =
          order_.placement.place(need->virtual_stage).stage == StageId::of_index(stage);
      sent = std::max(sent, *end);
      start = std::max(start, is_here ? *end : *end + ticks_.of(costs_.transfer));
    }
    times.bubble += sent - times.end;
    times.transfer += start - sent;
    SimTime end = start;
    for (std::size_t i = 0; i < count; ++i) {
      Pass const pass = tasks[next_[stage] + i].run.pass;
      SimTime const cost = ticks_.of(costs_.of(pass));
      end += cost;
      if (pass == Pass::recompute) times.recomputing += cost;
    }
    times.busy += end - start;
    times.end = end;
    for (std::size_t i = 0; i < count; ++i) {
      OrderTask const& task = tasks[next_[stage] + i];
      note_end(stage, task.run, end);
      times.runs.push_back({task.run, start, end, task.is_paired});
    }
    next_[stage] += count;
    return true;
  }

  void note_end(std::size_t stage, ChunkRun const& run, SimTime end) {
    VirtualStageId const here =
        order_.placement.virtual_stage({StageId::of_index(stage), run.chunk});
    if (run.pass == Pass::forward) forward_ends_[index(here, run.microbatch)] = end;
    if (gives_gradient(run.pass)) gradient_ends_[index(here, run.microbatch)] = end;
  }

  void refuse_waiting() const {
    std::string waits;
    for (std::size_t stage = 0; stage < order_.stages.size(); ++stage) {
      auto const& tasks = order_.stages[stage];
      if (next_[stage] == tasks.size()) continue;
      std::size_t const count = tasks[next_[stage]].is_paired ? 2 : 1;
      for (std::size_t i = 0; i < count; ++i) {
        auto const need = need_of(stage, tasks[next_[stage] + i].run);
        if (!need || end_of(*need)) continue;
        waits += "\n  stage " + std::to_string(stage) + " waits with " +
                 text_of(tasks[next_[stage] + i].run) + " for " + text_of(need->run) +
                 " of stage " +
                 std::to_string(order_.placement.place(need->virtual_stage).stage.value());
      }
    }
    if (waits.empty()) return;
    throw ScheduleError{"order", "stages that wait for each other:" + waits,
                        "an order in which no stages wait for each other in a circle"};
  }

  PipelineOrder const& order_;
  ChunkCosts const& costs_;
  CostTicks ticks_;
  Ends forward_ends_;
  Ends gradient_ends_;
  std::vector<std::size_t> next_;  ///< task of each stage
  PlayedOrder played_;
};

}  // namespace

PlayedOrder play_order(PipelineOrder const& order, ChunkCosts const& costs) {
  check_costs(costs);
  check_order(order);
  return OrderPlayer{order, costs}.run();
}

}  // namespace stagecraft
