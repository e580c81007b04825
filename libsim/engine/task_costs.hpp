#pragma once

#include <vector>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/task_profile.hpp"
#include "libsim/plan/distinct_tasks.hpp"
#include "libsim/plan/task_memory.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// What a task costs its rank.
struct TaskCost {
  SimTime duration{0};
  MemoryMove const* memory = nullptr;  ///< never null
};

/// Prices the tasks of a plan, each distinct one once.
class TaskCosts {
 public:
  /// Both must outlive it. \throws std::invalid_argument  when the system cannot price the plan.
  TaskCosts(TrainingPlan const& plan, CostModel const& cost);

  /// Valid for as long as this object.
  TaskCost const& of(StagePlan const& rank, Task const& task);

 private:
  TrainingPlan const& plan_;
  CostModel const& cost_;
  std::vector<BlockProfile> blocks_;
  TaskMemories memories_;
  DistinctTasks<TaskCost> tasks_;
};

}  // namespace stagecraft
