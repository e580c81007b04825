#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libsim/plan/pipeline_schedule.hpp"
#include "libsim/plan/task_memory.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The memory of a stage under each number of microbatches that it could store per window. The
/// stage's issue order is read once: with the number, only the programs that its chunks run change.
class WindowMemory {
 public:
  /// All but `stage` must outlive the object. Pre: `schedule` is of the plan, so are `tasks` and
  /// `messages`, and the chunks of `stage` have stored programs.
  WindowMemory(TrainingPlan const& plan,
               PipelineSchedule const& schedule,
               StagePlan const& stage,
               TaskMemories& tasks,
               MessageMemories& messages);

  /// Most forwards that the stage has outstanding: store_window().
  int window() const { return window_; }
  /// Whether a rank never holds more than `limit` bytes, workspace aside, if `count` microbatches
  /// per window are stored.
  bool fits(int count, std::int64_t limit) const;

 private:
  /// What one entry of the issue order does.
  struct Change {
    std::int32_t place = 0;  ///< in its window, of the run's forward
    MemoryMove const* stored = nullptr;
    MemoryMove const* recomputed = nullptr;
  };

  std::int64_t resident_;
  int window_;
  std::vector<Change> changes_;  ///< repeated windows (RepeatedWindows) once
  std::size_t body_begin_ = 0;
  std::size_t body_end_ = 0;
  int times_ = 1;  ///< that they run
};

}  // namespace stagecraft
