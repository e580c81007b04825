#include "libsim/schedule/orders/order_check.hpp"

#include <initializer_list>
#include <string>

#include "libsim/schedule/orders/order_text.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft {

namespace {

/// Which passes of a microbatch a stage has run in a chunk.
class PassSet {
 public:
  bool has(Pass pass) const { return (bits_ & bit(pass)) != 0; }
  bool has_gradient() const { return has(Pass::backward) || has(Pass::input_gradient); }
  void add(Pass pass) { bits_ |= bit(pass); }

 private:
  static unsigned bit(Pass pass) { return 1U << static_cast<unsigned>(pass); }
  unsigned bits_ = 0;
};

class StageCheck {
 public:
  StageCheck(PipelineOrder const& order, std::size_t stage)
      : order_{order},
        stage_{stage},
        started_(static_cast<std::size_t>(order.placement.chunks()) *
                 static_cast<std::size_t>(order.microbatches)),
        ended_{started_} {}

  void run() {
    auto const& tasks = order_.stages[stage_];
    std::size_t first = 0;  // first of the tasks that start together
    for (std::size_t at = 0; at < tasks.size(); ++at) {
      start(tasks[at].run);
      if (tasks[at].is_paired && (at > first || at + 1 == tasks.size())) {
        refuse("'" + text_of(tasks[at].run) + "', which is not paired with exactly one task",
               "pairs of two tasks");
      }
      if (tasks[at].is_paired) continue;
      for (; first <= at; ++first) of(ended_, tasks[first].run).add(tasks[first].run.pass);
    }
    for (ChunkId const chunk : order_.placement.chunk_ids()) {
      auto const range = microbatches(chunk);
      for (auto microbatch = range.first; microbatch < range.end; microbatch = microbatch + 1) {
        check_complete(microbatch, chunk);
      }
    }
  }

 private:
  MicrobatchRange microbatches(ChunkId chunk) const {
    Placement const& placement = order_.placement;
    VirtualStageId const here = placement.virtual_stage({StageId::of_index(stage_), chunk});
    return microbatches_of_copy(order_, placement.copy_of(here));
  }

  PassSet& of(std::vector<PassSet>& sets, ChunkRun const& run) const {
    return sets[run.chunk.index() * static_cast<std::size_t>(order_.microbatches) +
                run.microbatch.index()];
  }

  [[noreturn]] void refuse(std::string const& found, std::string const& accepted) const {
    throw ScheduleError{"order: stage " + std::to_string(stage_), found, accepted};
  }

  void start(ChunkRun const& run) {
    if (run.chunk.value() < 0 || run.chunk.value() >= order_.placement.chunks()) {
      refuse(text_of(run), "chunks 0 to " + std::to_string(order_.placement.chunks() - 1));
    }
    auto const range = microbatches(run.chunk);
    if (run.microbatch < range.first || run.microbatch >= range.end) {
      refuse(text_of(run), "in chunk " + std::to_string(run.chunk.value()) + " microbatches " +
                               std::to_string(range.first.value()) + " to " +
                               std::to_string(range.end.value() - 1));
    }
    PassSet& started = of(started_, run);
    if (started.has(run.pass)) refuse(text_of(run) + " twice", "once");
    check_passes(run, started);
    started.add(run.pass);
  }

  void check_passes(ChunkRun const& run, PassSet const& started) {
    bool const is_half = run.pass == Pass::input_gradient || run.pass == Pass::weight_gradient;
    bool const has_half = started.has(Pass::input_gradient) || started.has(Pass::weight_gradient);
    if ((is_half && started.has(Pass::backward)) || (run.pass == Pass::backward && has_half)) {
      refuse(text_of(run) + " and another backward of it", "B, or I and W");
    }
    if (run.pass == Pass::forward) return;
    Pass const needed = run.pass == Pass::weight_gradient ? Pass::input_gradient : Pass::forward;
    if (!of(ended_, run).has(needed)) {
      refuse(text_of(run) + " before the end of " + text_of({needed, run.microbatch, run.chunk}),
             "after it");
    }
    if (run.pass == Pass::recompute && started.has_gradient()) {
      refuse(text_of(run) + " after its backward", "before it");
    }
  }

  void check_complete(MicrobatchId microbatch, ChunkId chunk) {
    PassSet const& ended = of(ended_, {Pass::forward, microbatch, chunk});
    if (ended.has(Pass::backward)) return;
    for (Pass const pass : {Pass::forward, Pass::input_gradient, Pass::weight_gradient}) {
      if (ended.has(pass)) continue;
      std::string missing = text_of({pass, microbatch, chunk});
      if (pass == Pass::input_gradient)
        missing += " or " + text_of({Pass::backward, microbatch, chunk});
      refuse("no " + missing, "F, and B or I and W, of every microbatch in every chunk");
    }
  }

  PipelineOrder const& order_;
  std::size_t stage_;
  std::vector<PassSet> started_;  ///< by chunk and microbatch
  std::vector<PassSet> ended_;    ///< by chunk and microbatch
};

}  // namespace

void check_order(PipelineOrder const& order) {
  auto const stages = static_cast<std::size_t>(order.placement.stages());
  if (order.stages.size() != stages) {
    throw ScheduleError{"order", std::to_string(order.stages.size()) + " stages",
                        std::to_string(stages)};
  }
  if (order.microbatches < 1 || order.microbatches % order.placement.copies() != 0) {
    throw ScheduleError{"order", std::to_string(order.microbatches) + " microbatches",
                        "a multiple of " + std::to_string(order.placement.copies())};
  }
  for (std::size_t stage = 0; stage < stages; ++stage) StageCheck{order, stage}.run();
}

}  // namespace stagecraft
