#include "libsim/plan/stage_memory.hpp"

#include <cstddef>
#include <span>
#include <stdexcept>

namespace stagecraft {
CategoryBytes resident_memory(StagePlan const& stage) {
  CategoryBytes bytes;
  bytes[Category::parameters] = stage.parameter_bytes.count();
  bytes[Category::gradients] = stage.gradient_bytes.count();
  bytes[Category::optimizer] = stage.optimizer_bytes.count();
  return bytes;
}

EntryMemories::EntryMemories(StagePlan const& stage,
                             std::span<Transfer const> transfers,
                             TaskMemories& tasks,
                             MessageMemories& messages)
    : transfers_{transfers}, messages_{messages} {
  of_tasks_.reserve(stage.tasks.size());
  for (Task const& task : stage.tasks) of_tasks_.push_back(&tasks.of(task));
}

MemoryMove const& EntryMemories::of(IssueEntry const& entry) {
  if (entry.kind == IssueEntry::Kind::run) return *of_tasks_[static_cast<std::size_t>(entry.task)];
  bool const moves_messages =
      entry.kind == IssueEntry::Kind::post || entry.kind == IssueEntry::Kind::wait;
  if (!moves_messages) return none_;
  auto const transfers = transfers_.subspan(static_cast<std::size_t>(entry.first),
                                            static_cast<std::size_t>(entry.count));
  return messages_.of(entry.kind, transfers);
}

MemoryReplay::MemoryReplay(CategoryBytes const& resident)
    : now_{resident}, sum_{resident.sum()}, activation_sum_{resident.activation_sum()} {
  memory_.at_peak = resident;
  peak_ = sum_;
}

void MemoryReplay::repeat_since(MemoryReplay const& then, int times) {
  for (int i = 0; i < category_count; ++i) {
    auto const category = static_cast<Category>(i);
    now_[category] += times * (now_[category] - then.now_[category]);
  }
  sum_ += times * (sum_ - then.sum_);
  activation_sum_ += times * (activation_sum_ - then.activation_sum_);
  in_flight_ += times * (in_flight_ - then.in_flight_);
}

namespace {

/// Replays a stage's program. Of a loop it replays the first repetition and the last: memory
/// changes by the same amounts each time, so the peak is in one of these.
class ProgramMemory {
 public:
  ProgramMemory(StagePlan const& stage, TaskMemories& tasks, MessageMemories& messages)
      : stage_{stage},
        entries_{stage, stage.program.transfers, tasks, messages},
        replay_{resident_memory(stage)} {}

  StageMemory replay() {
    StageProgram const& program = stage_.program;
    auto const end = static_cast<std::int32_t>(program.entries.size());
    if (program.steady_loop == StageProgram::none) {
      replay(0, end);
      return replay_.result();
    }
    std::int32_t const begin = program.loop_begin();
    replay(0, begin);
    State const before{replay_, entry_};
    replay(begin, program.steady_loop);
    repeat(program.steady_loop, before, program.entries[at(program.steady_loop)].times - 1);
    replay(program.steady_loop + 1, end);
    return replay_.result();
  }

 private:
  struct State {
    MemoryReplay replay;
    std::int32_t entry;
  };
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

  void replay(std::int32_t begin, std::int32_t end) {
    for (std::int32_t i = begin; i < end; ++i) {
      IssueEntry const& entry = stage_.program.entries[at(i)];
      if (entry.kind != IssueEntry::Kind::repeat) {
        take(entry);
        continue;
      }
      State const before{replay_, entry_};
      replay(i - entry.count, i);
      repeat(i, before, entry.times - 2);
    }
  }

  /// Repeats a body that has been replayed once, from `before` on, `times` more times.
  void repeat(std::int32_t index, State const& before, std::int32_t times) {
    if (times <= 0) return;
    std::int32_t const entries = entry_ - before.entry;
    if (replay_.holds_as_much_as(before.replay)) {
      entry_ += times * entries;
      return;
    }
    replay_.repeat_since(before.replay, times - 1);
    entry_ += (times - 1) * entries;
    replay(index - stage_.program.entries[at(index)].count, index);
  }

  void take(IssueEntry const& entry) {
    replay_.move(entries_.of(entry), entry_++);
    if (entry.kind != IssueEntry::Kind::run) return;
    Task const& task = stage_.tasks[at(entry.task)];
    if (task.kind == Task::Kind::forward) {
      replay_.begin_chunk();
    } else if (ends_in_flight(task)) {
      replay_.end_chunk();
    }
  }

  StagePlan const& stage_;
  EntryMemories entries_;
  MemoryReplay replay_;
  std::int32_t entry_ = 0;  ///< of the issue order
};

void require_alike_ranks(TrainingPlan const& plan) {
  if (!plan.differs_by_rank()) return;
  throw std::logic_error{"the ranks of a stage hold different amounts: no plan of all has them"};
}

}  // namespace

StageMemory peak_memory(StagePlan const& stage, TaskMemories& tasks, MessageMemories& messages) {
  return ProgramMemory{stage, tasks, messages}.replay();
}

StageMemory peak_memory(TrainingPlan const& plan, StagePlan const& stage) {
  require_alike_ranks(plan);
  TaskMemories tasks{plan};
  MessageMemories messages{plan};
  return peak_memory(stage, tasks, messages);
}

std::vector<StageMemory> peak_memory(TrainingPlan const& plan) {
  require_alike_ranks(plan);
  TaskMemories tasks{plan};
  MessageMemories messages{plan};
  std::vector<StageMemory> memory;
  memory.reserve(plan.stages.size());
  for (StagePlan const& stage : plan.stages) {
    memory.push_back(peak_memory(stage, tasks, messages));
  }
  return memory;
}

}  // namespace stagecraft
