#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Says when the rest of an iteration only repeats what the allocator has already seen.
class SteadyTasks {
 public:
  /// `stage` must outlive the object.
  explicit SteadyTasks(StagePlan const& stage);

  void restart() { std::fill(has_run_.begin(), has_run_.end(), false); }

  /// Whether all entries after entry `index`, which runs the task `run` if it is not null, repeat
  /// what has run since the last restart.
  bool is_reached_by(std::int32_t index, Task const* run);

 private:
  StagePlan const& stage_;
  /// The last entry of the issue order that runs a task, by task.
  std::vector<std::int32_t> last_run_;
  std::vector<bool> has_run_;  ///< by task
  std::int32_t fullest_ = 0;   ///< the entry at which most passes are in flight
};

}  // namespace stagecraft
