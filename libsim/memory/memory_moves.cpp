#include "libsim/memory/memory_moves.hpp"

#include "libsim/memory/message_buffers.hpp"

namespace stagecraft {

MemoryMoves::MemoryMoves(TrainingPlan const& plan, Programs const& programs)
    : plan_{plan}, programs_{programs}, tasks_{programs} {
  places_.fill(none);
  blocks_.reserve(programs.blocks.size());
  for (BlockProgram const& block : programs.blocks) {
    blocks_.push_back({profile_memory(block, Pass::forward), profile_memory(block, Pass::backward),
                       profile_memory(block, Pass::input_gradient),
                       profile_memory(block, Pass::weight_gradient),
                       profile_memory(block, Pass::recompute)});
  }
}

MemoryMove const& MemoryMoves::of(Task const& task) {
  if (task.kind == Task::Kind::step) return nothing_;
  return tasks_.of(task, [&] { return sum_of(task); });
}

MemoryMove MemoryMoves::sum_of(Task const& task) const {
  std::size_t const pass = index_of(pass_of(task));
  MemoryProfile sum;
  std::int32_t number = 0;
  for (TaskBlock const& of_task : blocks_in_order(programs_, task)) {
    MemoryProfile const& block = blocks_[of_task.block][pass];
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
  bool const begins = task.kind == Task::Kind::forward;
  return MemoryMove{sum, begins ? 1 : ends_in_flight(task) ? -1 : 0};
}

MemoryMove const& MemoryMoves::of(IssueEntry::Kind kind, std::span<Transfer const> transfers) {
  if (transfers.size() > most_transfers) throw std::logic_error{"an entry has too many transfers"};
  std::size_t code = kind == IssueEntry::Kind::post ? 2 : 3;  // then payloads and ends, in order
  for (Transfer const& transfer : transfers) {
    code = 4 * code + 2 * static_cast<std::size_t>(transfer.payload) +
           static_cast<std::size_t>(transfer.end);
  }
  if (places_[code] == none) places_[code] = append(kind, transfers);
  return exchanges_[static_cast<std::size_t>(places_[code])];
}

std::int16_t MemoryMoves::append(IssueEntry::Kind kind, std::span<Transfer const> transfers) {
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
  exchanges_.emplace_back(memory);
  return static_cast<std::int16_t>(exchanges_.size() - 1);
}

std::vector<MemoryMove const*> MemoryMoves::of(std::span<IssueEntry const> entries,
                                               std::span<Task const> tasks,
                                               std::span<Transfer const> transfers) {
  std::vector<MemoryMove const*> of_tasks;
  of_tasks.reserve(tasks.size());
  for (Task const& task : tasks) of_tasks.push_back(&of(task));
  std::vector<MemoryMove const*> moves;
  moves.reserve(entries.size());
  for (IssueEntry const& entry : entries) {
    switch (entry.kind) {
      case IssueEntry::Kind::run:
        moves.push_back(of_tasks[static_cast<std::size_t>(entry.task)]);
        break;
      case IssueEntry::Kind::post:
      case IssueEntry::Kind::wait:
        moves.push_back(&of(entry.kind, transfers.subspan(static_cast<std::size_t>(entry.first),
                                                          static_cast<std::size_t>(entry.count))));
        break;
      case IssueEntry::Kind::drain:
      case IssueEntry::Kind::repeat:
        moves.push_back(&nothing_);
        break;
    }
  }
  return moves;
}

}  // namespace stagecraft
