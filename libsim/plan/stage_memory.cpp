#include "libsim/plan/stage_memory.hpp"

#include <cstddef>
#include <span>

namespace stagecraft {
CategoryBytes resident_memory(StagePlan const& stage) {
  CategoryBytes bytes;
  bytes[Category::parameters] = stage.parameter_bytes.count();
  bytes[Category::gradients] = stage.gradient_bytes.count();
  bytes[Category::optimizer] = stage.optimizer_bytes.count();
  return bytes;
}

EntryMemories::EntryMemories(StagePlan const& stage, TaskMemories& tasks, MessageMoves& messages)
    : stage_{stage}, messages_{messages} {
  of_tasks_.reserve(stage.tasks.size());
  for (Task const& task : stage.tasks) of_tasks_.push_back(&tasks.of(task));
}

MemoryMove const& EntryMemories::of(IssueEntry const& entry) {
  if (entry.kind == IssueEntry::Kind::run) return *of_tasks_[static_cast<std::size_t>(entry.task)];
  if (entry.kind == IssueEntry::Kind::drain) return none_;
  auto const transfers = std::span{stage_.transfers}.subspan(static_cast<std::size_t>(entry.first),
                                                             static_cast<std::size_t>(entry.count));
  return messages_.of(
      entry.kind == IssueEntry::Kind::post ? MessageMoves::Kind::post : MessageMoves::Kind::wait,
      transfers);
}

MemoryWalk::MemoryWalk(CategoryBytes const& resident)
    : now_{resident}, sum_{resident.sum()}, activation_sum_{resident.activation_sum()} {
  memory_.at_peak = resident;
  peak_ = sum_;
}

void MemoryWalk::repeat_since(MemoryWalk const& then, int times) {
  for (int i = 0; i < category_count; ++i) {
    auto const category = static_cast<Category>(i);
    now_[category] += times * (now_[category] - then.now_[category]);
  }
  sum_ += times * (sum_ - then.sum_);
  activation_sum_ += times * (activation_sum_ - then.activation_sum_);
  in_flight_ += times * (in_flight_ - then.in_flight_);
}

StageMemory peak_memory(StagePlan const& stage, TaskMemories& tasks, MessageMoves& messages) {
  MemoryWalk walk{resident_memory(stage)};
  EntryMemories entries{stage, tasks, messages};
  for (std::size_t i = 0; i < stage.steps.size(); ++i) {
    IssueEntry const& entry = stage.steps[i];
    walk.move(entries.of(entry), static_cast<std::int32_t>(i));
    if (entry.kind != IssueEntry::Kind::run) continue;
    Task const& task = stage.tasks[static_cast<std::size_t>(entry.task)];
    if (task.kind == Task::Kind::forward) {
      walk.begin_chunk();
    } else if (ends_backward(task)) {
      walk.end_chunk();
    }
  }
  return walk.result();
}

StageMemory peak_memory(TrainingPlan const& plan, StagePlan const& stage) {
  TaskMemories tasks{plan};
  MessageMoves messages{plan};
  return peak_memory(stage, tasks, messages);
}

std::vector<StageMemory> peak_memory(TrainingPlan const& plan) {
  TaskMemories tasks{plan};
  MessageMoves messages{plan};
  std::vector<StageMemory> memory;
  memory.reserve(plan.stages.size());
  for (StagePlan const& stage : plan.stages) {
    memory.push_back(peak_memory(stage, tasks, messages));
  }
  return memory;
}

}  // namespace stagecraft
