#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "libsim/plan/stage_order.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The window of the paper's appendix C: most forwards that a stage has outstanding, the warm-up's
/// and one more. Pre: `shape` is legal, its group filled in.
inline int store_window(ScheduleShape const& shape, int stage) {
  return std::min(warmup_forwards(shape, stage) + 1, shape.microbatches * shape.chunks);
}

/// Gives the chunk runs of a rank their tasks, in the rank's issue order: by which program a chunk
/// runs, and whether its backward is cut into pieces between which gradients are reduced. A task is
/// appended to StagePlan::tasks when it is first used.
class StageTasks {
 public:
  /// The plan's chunks and blocks, and the rank's stage, are set; all three outlive this object.
  /// Pre: `shape` is legal, its group filled in.
  StageTasks(TrainingPlan const& plan, ScheduleShape const& shape, StagePlan& rank);

  /// Number of the task of a forward; of the whole backward of a chunk that ran forward before.
  std::int32_t forward(ChunkRun const& run) {
    if (window_store_ > 0) note_stored(run);
    return whole_work(run, Task::Kind::forward);
  }
  std::int32_t backward(ChunkRun const& run) { return whole_work(run, Task::Kind::backward); }

  /// Whether gradients are reduced behind this backward: it is the last of its chunk, and gradient
  /// reduction is overlapped. Asked once a backward.
  bool starts_reduction(ChunkRun const& run) {
    return overlaps_reduction_ && --backwards_left_[static_cast<std::size_t>(run.chunk)] == 0;
  }
  /// Counts up to `more` further backwards of the chunk that are like the one before, and returns
  /// how many are.
  int repeat_backward(ChunkRun const& run, int more) {
    if (!overlaps_reduction_) return more;
    auto& left = backwards_left_[static_cast<std::size_t>(run.chunk)];
    int const like = left > 1 ? std::min(more, left - 1) : 0;
    left -= like;
    return like;
  }
  /// Whether all microbatches of a chunk have the same tasks (but for the last backward).
  bool are_alike() const { return window_store_ == 0; }
  /// Appends the steps of such a backward: each bucket's blocks, then its reduction.
  void append_reduced_backward(ChunkRun const& run);

 private:
  /// Whether the run's microbatch is among those whose activations are all stored.
  bool is_stored(ChunkRun const& run) const {
    return window_store_ > 0 && stored_[place(run)] != 0;
  }
  std::size_t place(ChunkRun const& run) const {
    return static_cast<std::size_t>(run.chunk) * microbatches_ +
           static_cast<std::size_t>(run.microbatch);
  }
  std::int32_t program(ChunkRun const& run) const;
  void note_stored(ChunkRun const& run);
  std::int32_t whole_work(ChunkRun const& run, Task::Kind kind) {
    int const variant = is_stored(run) ? 1 : 0;
    int const pass = kind == Task::Kind::forward ? 0 : 1;
    auto& known = whole_[2 * static_cast<std::size_t>(variant * chunks_ + run.chunk) +
                         static_cast<std::size_t>(pass)];
    if (known < 0) known = append_whole(run, kind);
    return known;
  }
  std::int32_t append_whole(ChunkRun const& run, Task::Kind kind);
  std::int32_t append(Task::Kind kind,
                      std::int32_t program,
                      std::int32_t first,
                      std::int32_t count);

  TrainingPlan const& plan_;
  StagePlan& rank_;
  std::size_t microbatches_;
  int chunks_;
  bool overlaps_reduction_;
  int window_;                        ///< store_window()
  int window_store_ = 0;              ///< how many in a window are stored
  int forwards_ = 0;                  ///< so far
  std::vector<std::uint8_t> stored_;  ///< by chunk and microbatch; empty where none is
  std::vector<std::int32_t> whole_;   ///< tasks by variant, chunk and pass; -1: not yet used
  std::vector<std::int32_t> backwards_left_;  ///< by chunk
};

}  // namespace stagecraft
