#include "libsim/engine/task_costs.hpp"

#include <algorithm>
#include <cstddef>

#include "libsim/engine/rank_memory.hpp"

namespace stagecraft {

TaskCosts::TaskCosts(TrainingPlan const& plan, CostModel const& cost)
    : plan_{plan}, cost_{cost}, blocks_{profile_blocks(plan, cost)}, whole_(plan.chunks.size()) {
  same_as_.reserve(plan.chunks.size());
  std::vector<std::int32_t> distinct;
  for (std::size_t i = 0; i < plan.chunks.size(); ++i) {
    auto const same = std::find_if(distinct.begin(), distinct.end(), [&](std::int32_t other) {
      return plan.chunks[static_cast<std::size_t>(other)].blocks == plan.chunks[i].blocks;
    });
    bool const is_new = same == distinct.end();
    same_as_.push_back(is_new ? static_cast<std::int32_t>(i) : *same);
    if (is_new) distinct.push_back(same_as_.back());
  }
}

TaskCost const& TaskCosts::of(StagePlan const& rank, Task const& task) {
  if (task.kind == Task::Kind::step) return *make(rank, task);
  auto const program = static_cast<std::size_t>(task.program);
  auto const all = static_cast<std::int32_t>(plan_.chunks[program].blocks.size());
  if (task.block_count != all) return *make(rank, task);
  std::size_t const pass = task.kind == Task::Kind::forward ? 0 : 1;
  TaskCost const*& known = whole_[static_cast<std::size_t>(same_as_[program])][pass];
  if (known == nullptr) known = make(rank, task);
  return *known;
}

TaskCost const* TaskCosts::make(StagePlan const& rank, Task const& task) {
  TaskProfile const profile = profile_task(plan_, rank, task, blocks_, cost_);
  made_.push_back(
      {.duration = profile.duration, .memory = MemoryMove{task_memory(plan_, task, profile)}});
  return &made_.back();
}

}  // namespace stagecraft
