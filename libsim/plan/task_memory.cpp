#include "libsim/plan/task_memory.hpp"

#include "libsim/plan/message_buffers.hpp"

namespace stagecraft {

TaskMemories::TaskMemories(TrainingPlan const& plan) : plan_{plan}, tasks_{plan} {
  blocks_.reserve(plan.blocks.size());
  for (BlockProgram const& block : plan.blocks) {
    blocks_.push_back({profile_memory(block, Pass::forward), profile_memory(block, Pass::backward),
                       profile_memory(block, Pass::input_gradient),
                       profile_memory(block, Pass::weight_gradient),
                       profile_memory(block, Pass::recompute)});
  }
}

MemoryMove const& TaskMemories::of(Task const& task) {
  if (task.kind == Task::Kind::step) return none_;
  return tasks_.of(task, [&] { return MemoryMove{profile(task)}; });
}

MemoryProfile TaskMemories::profile(Task const& task) const {
  std::size_t const pass = index_of(pass_of(task));
  MemoryProfile sum;
  std::int32_t number = 0;
  for (std::int32_t const index : blocks_in_order(plan_, task)) {
    MemoryProfile const& block = blocks_[static_cast<std::size_t>(index)][pass];
    std::int64_t const peak_before = sum.peak;
    std::int32_t const op_before = sum.peak_op;
    sum.append(block);
    bool const is_higher = sum.peak > peak_before;
    sum.peak_op = is_higher ? block.peak_op : op_before;
    if (is_higher) sum.peak_block = number;
    ++number;
  }
  if (releases_output(plan_, task)) {
    sum.release(MessageMove{}.category(),
                message_buffer_bytes(plan_, MessageBuffer::whole).count());
  }
  return sum;
}

std::int16_t MessageMemories::make(IssueEntry::Kind kind, std::span<Transfer const> transfers) {
  MemoryProfile memory;
  for (Transfer const& transfer : transfers) {
    for (MessageMove const& move : message_moves(plan_, kind, transfer)) {
      std::int64_t const bytes = message_buffer_bytes(plan_, move.buffer).count();
      if (move.allocates) {
        memory.allocate(move.category(), bytes);
      } else {
        memory.release(move.category(), bytes);
      }
    }
  }
  moves_.emplace_back(memory);
  return static_cast<std::int16_t>(moves_.size() - 1);
}

}  // namespace stagecraft
