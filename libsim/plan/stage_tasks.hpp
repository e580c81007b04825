#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "libsim/plan/pipeline_schedule.hpp"
#include "libsim/plan/stage_order.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The window of the paper's appendix C: the largest number of forwards in flight on a stage, up to
/// their gradients. Without an order it is one more than in the warm-up.
/// Pre: `shape` is legal, its group or order filled in.
inline int store_window(ScheduleShape const& shape, StageId stage) {
  if (shape.order) {
    return most_in_flight(*shape.order, stage.index(), InFlight::until_input_gradient);
  }
  return std::min(warmup_forwards(shape, stage) + 1, shape.microbatches * shape.chunks);
}

/// Where the microbatches that a stage runs lie in its windows: forwards are counted in issue
/// order, and the first `store_microbatches` of each window are stored.
class WindowPlaces {
 public:
  /// Pre: `shape` is legal, its group filled in.
  WindowPlaces(ScheduleShape const& shape, StageId stage);

  /// The place of the run's forward in its window, from 0. Pre: runs are asked for in issue order.
  int of(ChunkRun const& run) {
    auto const number = run.chunk.index() * microbatches_ + run.microbatch.index();
    if (run.part == Part::forward) places_[number] = forwards_++ % window_;
    return places_[number];
  }

 private:
  int window_;
  std::size_t microbatches_;
  int forwards_ = 0;                  ///< so far
  std::vector<std::int32_t> places_;  ///< by chunk and microbatch
};

/// Which program of its chunk a microbatch runs: that of the policy, the one that stores all
/// activations, or the one that is recomputed ahead of its backward.
enum class TaskVariant : std::uint8_t { policy, stored, early };

/// The task that runs all blocks of a chunk's program of this variant.
Task whole_task(TrainingPlan const& plan,
                StagePlan const& stage,
                ChunkRun const& run,
                TaskVariant variant);

/// Appends the schedule's microbatches to a stage's program. Each run gets the task of its chunk's
/// program; the last backward of a chunk is cut into pieces if gradients are reduced between them.
/// A task is appended to StagePlan::tasks when it is first used.
///
/// A window of stored microbatches has a different period on every stage, so a plan with one has no
/// steady-state loop; each stage repeats its own windows (repeat_windows()).
/// Pre: the plan's chunks and blocks, and the stage's chunks, are set.
void append_microbatches(StagePlan& stage,
                         TrainingPlan const& plan,
                         PipelineSchedule const& schedule);

}  // namespace stagecraft
