#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/memory_walk.hpp"
#include "libsim/engine/task_profile.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// What a task costs its rank.
struct TaskCost {
  SimTime duration{0};
  MemoryMove memory;
};

/// Prices the tasks of a plan. Most stages run the same chunks, so whole chunks are priced once for
/// all.
class TaskCosts {
 public:
  /// Both must outlive it. \throws std::invalid_argument  when the system cannot price the plan.
  TaskCosts(TrainingPlan const& plan, CostModel const& cost);

  /// Valid for as long as this object.
  TaskCost const& of(StagePlan const& rank, Task const& task);

 private:
  TaskCost const* make(StagePlan const& rank, Task const& task);

  TrainingPlan const& plan_;
  CostModel const& cost_;
  std::vector<BlockProfile> blocks_;
  std::deque<TaskCost> made_;          ///< never moves what it holds
  std::vector<std::int32_t> same_as_;  ///< by chunk program: the first with the same blocks
  std::vector<std::array<TaskCost const*, 2>> whole_;  ///< by chunk program and pass
};

}  // namespace stagecraft
