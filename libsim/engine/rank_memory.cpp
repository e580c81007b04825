#include "libsim/engine/rank_memory.hpp"

#include "libsim/engine/memory_walk.hpp"
#include "libsim/plan/message_buffers.hpp"

namespace stagecraft {
namespace {

/// Allocates `bytes`, or releases them where they are negative.
void change(MemoryProfile& profile, Category category, std::int64_t bytes) {
  MemoryProfile one;
  one.net[category] = bytes;
  if (bytes > 0) {
    one.peak = bytes;
    one.at_peak = one.net;
    one.activation_peak = one.net.activation_sum();
  }
  profile.append(one);
}

std::span<Transfer const> transfers_of(StagePlan const& rank, IssueEntry const& step) {
  return std::span{rank.transfers}.subspan(static_cast<std::size_t>(step.first),
                                           static_cast<std::size_t>(step.count));
}

/// The memory of a rank's steps, profiled once a kind of step.
class StepMoves {
 public:
  StepMoves(TrainingPlan const& plan, StagePlan const& rank, std::vector<TaskProfile> const& tasks)
      : plan_{plan}, rank_{rank}, of_messages_{plan} {
    of_task_.reserve(tasks.size());
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      of_task_.emplace_back(task_memory(plan, rank.tasks[i], tasks[i]));
    }
  }

  MemoryMove const& of(IssueEntry const& step) {
    if (step.kind == IssueEntry::Kind::run) return of_task_[static_cast<std::size_t>(step.task)];
    auto const kind =
        step.kind == IssueEntry::Kind::post ? MessageMoves::Kind::post : MessageMoves::Kind::wait;
    if (step.count > MessageMoves::most) {
      other_ = MemoryMove{message_memory(plan_, step.kind, transfers_of(rank_, step))};
      return other_;
    }
    MessageMoves::Code code;
    for (Transfer const& transfer : transfers_of(rank_, step)) {
      code.add(transfer.payload, transfer.end);
    }
    return of_messages_.of(kind, code);
  }

 private:
  TrainingPlan const& plan_;
  StagePlan const& rank_;
  std::vector<MemoryMove> of_task_;
  MessageMoves of_messages_;
  MemoryMove other_{MemoryProfile{}};
};

}  // namespace

MemoryProfile task_memory(TrainingPlan const& plan, Task const& task, TaskProfile const& profile) {
  MemoryProfile memory = profile.memory;
  if (releases_output(plan, task)) {
    change(memory, MessageMove{}.category(),
           -message_buffer_bytes(plan, MessageBuffer::whole).count());
  }
  return memory;
}

MemoryProfile message_memory(TrainingPlan const& plan,
                             IssueEntry::Kind kind,
                             std::span<Transfer const> transfers) {
  MemoryProfile memory;
  for (Transfer const& transfer : transfers) {
    for (MessageMove const& move : message_moves(plan, kind, transfer)) {
      std::int64_t const bytes = message_buffer_bytes(plan, move.buffer).count();
      change(memory, move.category(), move.allocates ? bytes : -bytes);
    }
  }
  return memory;
}

MemoryProfile profile_step_memory(TrainingPlan const& plan,
                                  StagePlan const& rank,
                                  IssueEntry const& step,
                                  std::vector<TaskProfile> const& tasks) {
  if (step.kind == IssueEntry::Kind::drain) return {};
  if (step.kind != IssueEntry::Kind::run) {
    return message_memory(plan, step.kind, transfers_of(rank, step));
  }
  auto const task = static_cast<std::size_t>(step.task);
  return task_memory(plan, rank.tasks[task], tasks[task]);
}

CategoryBytes resident_memory(StagePlan const& rank) {
  CategoryBytes bytes;
  bytes[Category::parameters] = rank.parameter_bytes.count();
  bytes[Category::gradients] = rank.gradient_bytes.count();
  bytes[Category::optimizer] = rank.optimizer_bytes.count();
  return bytes;
}

RankMemory walk_memory(TrainingPlan const& plan,
                       StagePlan const& rank,
                       std::vector<TaskProfile> const& tasks) {
  MemoryWalk walk{resident_memory(rank)};
  StepMoves moves{plan, rank, tasks};
  for (std::size_t i = 0; i < rank.steps.size(); ++i) {
    IssueEntry const& step = rank.steps[i];
    walk.move(moves.of(step), static_cast<std::int32_t>(i));
    if (step.kind != IssueEntry::Kind::run) continue;
    Task const& task = rank.tasks[static_cast<std::size_t>(step.task)];
    if (task.kind == Task::Kind::forward) {
      walk.begin_chunk();
    } else if (ends_backward(task)) {
      walk.end_chunk();
    }
  }
  return walk.result();
}

}  // namespace stagecraft
