#include "libsim/schedule/generators/early_recompute.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace stagecraft {
namespace {

/// Plays an order and inserts recompute when its stages wait. It owns the position and the clock of
/// each stage and the order that it makes, in which the given tasks keep their places.
class RecomputePlacer {
 public:
  RecomputePlacer(PipelineOrder const& order,
                  std::vector<RecomputeTimes> const& times,
                  std::vector<bool> stored)
      : order_{order},
        times_{times},
        forward_ends_(static_cast<std::size_t>(order.placement.virtual_stages()) *
                      static_cast<std::size_t>(order.microbatches)),
        gradient_ends_(forward_ends_.size()),
        needs_no_more_{std::move(stored)},
        next_(order.stages.size()),
        free_(order.stages.size()),
        made_{order.placement, order.microbatches, {}} {
    needs_no_more_.resize(forward_ends_.size());
    made_.stages.resize(order.stages.size());
  }

  PipelineOrder run() && {
    for (bool is_moving = true; is_moving;) {
      is_moving = false;
      for (std::size_t stage = 0; stage < order_.stages.size(); ++stage) {
        while (next_[stage] < order_.stages[stage].size() && advance(stage)) is_moving = true;
      }
    }
    return std::move(made_);
  }

 private:
  VirtualStageId virtual_stage(std::size_t stage, ChunkRun const& run) const {
    return order_.placement.virtual_stage({StageId::of_index(stage), run.chunk});
  }
  std::size_t number(VirtualStageId virtual_stage, MicrobatchId microbatch) const {
    return virtual_stage.index() * static_cast<std::size_t>(order_.microbatches) +
           microbatch.index();
  }
  RecomputeTimes const& times_of(VirtualStageId virtual_stage) const {
    return times_[virtual_stage.index()];
  }

  /// When what the task needs of another chunk is here; nothing if that has not run.
  std::optional<SimTime> arrival(std::size_t stage, ChunkRun const& run) const {
    Placement const& placement = order_.placement;
    VirtualStageId const here = virtual_stage(stage, run);
    auto const at = [&](auto const& ends, VirtualStageId there,
                        VirtualStageId boundary) -> std::optional<SimTime> {
      auto const end = ends[number(there, run.microbatch)];
      if (!end) return std::nullopt;
      bool const is_here = placement.place(there).stage == StageId::of_index(stage);
      return is_here ? *end : *end + times_of(boundary).transfer;
    };
    if (run.pass == Pass::forward) {
      if (placement.is_first(here)) return SimTime{0};
      return at(forward_ends_, previous(here), previous(here));
    }
    if (!gives_gradient(run.pass)) return SimTime{0};
    if (placement.is_last(here)) return at(forward_ends_, here, here);
    return at(gradient_ends_, next(here), here);
  }

  SimTime duration(std::size_t stage, ChunkRun const& run) const {
    VirtualStageId const here = virtual_stage(stage, run);
    RecomputeTimes const& times = times_of(here);
    SimTime const pass = run.pass == Pass::forward           ? times.forward
                         : run.pass == Pass::weight_gradient ? times.weight_gradient
                         : run.pass == Pass::input_gradient  ? times.input_gradient
                                                             : times.backward;
    bool const is_shorter =
        gives_gradient(run.pass) && needs_no_more_[number(here, run.microbatch)];
    return is_shorter ? pass - times.recompute : pass;
  }

  /// The next backward of the stage, from task `first` on; null if its forward has not run, or if
  /// it is recomputed or never is.
  ChunkRun const* next_backward(std::size_t stage, std::size_t first) const {
    auto const& tasks = order_.stages[stage];
    auto const next = std::find_if(tasks.begin() + static_cast<std::ptrdiff_t>(first), tasks.end(),
                                   [](auto const& task) { return gives_gradient(task.run.pass); });
    if (next == tasks.end()) return nullptr;
    VirtualStageId const here = virtual_stage(stage, next->run);
    std::size_t const pass = number(here, next->run.microbatch);
    bool const can_run =
        forward_ends_[pass] && !needs_no_more_[pass] && times_of(here).recompute > SimTime{0};
    return can_run ? &next->run : nullptr;
  }

  void recompute(std::size_t stage, ChunkRun const& run) {
    VirtualStageId const here = virtual_stage(stage, run);
    made_.stages[stage].push_back({{Pass::recompute, run.microbatch, run.chunk}});
    needs_no_more_[number(here, run.microbatch)] = true;
    free_[stage] += times_of(here).recompute;
  }

  /// Runs the stage's next task, or pair, unless it has to wait for one that has not run.
  bool advance(std::size_t stage) {
    auto const& tasks = order_.stages[stage];
    std::size_t const first = next_[stage];
    std::size_t const end = first + (tasks[first].is_paired ? 2 : 1);
    SimTime ready{0};
    bool has_backward = false;
    for (std::size_t i = first; i < end; ++i) {
      auto const here = arrival(stage, tasks[i].run);
      if (!here) return false;
      ready = std::max(ready, *here);
      has_backward = has_backward || gives_gradient(tasks[i].run.pass);
    }
    if (ChunkRun const* const next = next_backward(stage, first); next != nullptr) {
      SimTime const wait = ready - free_[stage];
      SimTime const needed =
          has_backward ? SimTime{1} : times_of(virtual_stage(stage, *next)).recompute;
      if (wait >= needed) recompute(stage, *next);
    }
    SimTime time = std::max(ready, free_[stage]);
    for (std::size_t i = first; i < end; ++i) time += duration(stage, tasks[i].run);
    for (std::size_t i = first; i < end; ++i) {
      ChunkRun const& run = tasks[i].run;
      std::size_t const pass = number(virtual_stage(stage, run), run.microbatch);
      if (run.pass == Pass::forward) forward_ends_[pass] = time;
      if (gives_gradient(run.pass)) gradient_ends_[pass] = time;
      made_.stages[stage].push_back(tasks[i]);
    }
    free_[stage] = time;
    next_[stage] = end;
    return true;
  }

  PipelineOrder const& order_;
  std::vector<RecomputeTimes> const& times_;
  std::vector<std::optional<SimTime>> forward_ends_;  ///< by virtual stage and microbatch
  std::vector<std::optional<SimTime>> gradient_ends_;
  std::vector<bool> needs_no_more_;  ///< likewise: what is stored, or has been recomputed
  std::vector<std::size_t> next_;    ///< task of each stage
  std::vector<SimTime> free_;        ///< when each stage has run what is before
  PipelineOrder made_;
};

}  // namespace

PipelineOrder with_early_recompute(PipelineOrder const& order,
                                   std::vector<RecomputeTimes> const& times,
                                   std::vector<bool> stored) {
  return RecomputePlacer{order, times, std::move(stored)}.run();
}

}  // namespace stagecraft
