#include "libsim/engine/task_costs.hpp"

namespace stagecraft {

TaskCosts::TaskCosts(TrainingPlan const& plan, CostModel const& cost)
    : plan_{plan},
      cost_{cost},
      blocks_{profile_blocks(plan, cost)},
      memories_{plan},
      tasks_{plan} {}

TaskCost const& TaskCosts::of(StagePlan const& rank, Task const& task) {
  return tasks_.of(task, [&] {
    return TaskCost{.duration = profile_task(plan_, rank, task, blocks_, cost_).duration,
                    .memory = &memories_.of(task)};
  });
}

}  // namespace stagecraft
