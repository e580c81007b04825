#include "libsim/engine/recorded_task.hpp"

#include <span>

#include "libsim/memory/message_buffers.hpp"
#include "libsim/plan/parameter_layout.hpp"
#include "libsim/program/pass_buffers.hpp"
#include "libsim/trace/trace_sums.hpp"

namespace stagecraft {

namespace {

RecordedOp recorded_op(Op const& op, TraceVocabulary const& vocabulary) {
  return {.op = vocabulary.index_of(op.name),
          .phase = phase_of(op),
          .stream = op.stream,
          .bytes = recorded_bytes(op),
          .flops = op.flops};
}

/// The row of a wait for the host.
RecordedOp recorded_wait(SimTime start, SimTime end) {
  return {
      .start = start, .end = end, .op = TraceVocabulary::host_wait, .phase = TracePhase::host_wait};
}

/// Appends the ops of blocks, one block after another. Between two calls, `start_` is the end of
/// the last block and `now_` what the task has allocated and not released until then.
class OpRecorder {
 public:
  OpRecorder(CostedPlan const& costed, TraceVocabulary const& vocabulary, Pass pass)
      : costed_{costed}, vocabulary_{vocabulary}, pass_{pass} {}

  /// `held` is the same block in the programs whose memory is recorded. `first_layer` is the number
  /// in the model of the block's first layer.
  void append(std::size_t block, BlockProgram const& held, std::int64_t first_layer) {
    BlockProgram const& program = costed_.plan().programs.blocks[block];
    PassTimes const& times = costed_.blocks()[block].times(pass_);
    std::vector<Op> const& ops = program.ops(pass_);
    auto wait = times.host_waits.begin();
    auto const add_waits_before = [&](std::size_t op) {
      for (; wait != times.host_waits.end() && wait->op <= op; ++wait) {
        task_.ops.push_back(recorded_wait(start_ + wait->start, start_ + wait->end));
      }
    };
    for (std::size_t i = 0; i < ops.size(); ++i) {
      add_waits_before(i);
      RecordedOp& row = task_.ops.emplace_back(recorded_op(ops[i], vocabulary_));
      row.start = start_ + times.start[i];
      row.end = start_ + times.end[i];
      row.layer = layer_of(program.kind, first_layer, ops[i].layer);
    }
    add_waits_before(ops.size());
    append_memory(held, times);
    start_ += times.duration;
  }

  /// `duration` is that of the whole task, in which the host may still have to catch up.
  RecordedTask finish(SimTime duration) && {
    if (start_ < duration) task_.ops.push_back(recorded_wait(start_, duration));
    return std::move(task_);
  }

 private:
  void append_memory(BlockProgram const& program, PassTimes const& times) {
    std::vector<Op> const& ops = program.ops(pass_);
    PassBuffers const buffers{program, pass_};
    for (std::size_t i = 0; i < ops.size(); ++i) {
      change(start_ + issue_time(ops, times, i), buffers.before(i));
      // Only ops of the compute stream release: others are waited for first.
      change(start_ + times.end[i], buffers.after(i));
    }
  }

  void change(SimTime time, std::span<BufferMove const> moves) {
    if (moves.empty()) return;
    for (BufferMove const& move : moves) {
      now_[move.category] += move.allocates ? move.bytes : -move.bytes;
    }
    task_.memory.push_back({time, now_});
  }

  CostedPlan const& costed_;
  TraceVocabulary const& vocabulary_;
  Pass pass_;
  RecordedTask task_;
  SimTime start_{0};
  CategoryBytes now_;
};

RecordedTask record_ops(CostedPlan const& costed,
                        Programs const& held,
                        Task const& task,
                        TraceVocabulary const& vocabulary,
                        SimTime duration) {
  TrainingPlan const& plan = costed.plan();
  ChunkProgram const& chunk = plan.programs.chunks[static_cast<std::size_t>(task.program)];
  OpRecorder recorder{costed, vocabulary, pass_of(task)};
  std::vector<TaskBlock> const blocks = blocks_in_order(plan.programs, task);
  std::vector<TaskBlock> const blocks_held = blocks_in_order(held, task);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    recorder.append(blocks[i].block, held.blocks[blocks_held[i].block],
                    first_layer_of(plan.programs, chunk, blocks[i].position));
  }
  return std::move(recorder).finish(duration);
}

RecordedTask record_chunk(CostedPlan const& costed,
                          Task const& task,
                          TraceVocabulary const& vocabulary,
                          TaskProfile const& profile,
                          MemoryProfile memory) {
  ChunkSums const sums = chunk_sums(costed.plan().programs, task);
  // Waits for a unit or for a layer's copies have rows of their own, as waits for the host have.
  SimTime const of_units = profile.shares.data_parallel - profile.host_waits.data_parallel;
  SimTime const of_copies = profile.shares.offload - profile.host_waits.offload;
  SimTime const ran = profile.duration - profile.host_waits.sum();
  SimTime const computed = ran - of_units - of_copies;
  RecordedOp const row{.end = computed,
                       .op = vocabulary.index_of(pass_of(task)),
                       .phase = phase_of(pass_of(task)),
                       .bytes = sums.bytes,
                       .flops = sums.flops};
  // The release of an output that was kept has a row of its own.
  if (releases_output(costed.plan(), task)) {
    memory.net[MessageMove{}.category()] +=
        message_buffer_bytes(costed.plan(), MessageBuffer::whole).count();
  }
  SimTime const peak_offset = profile.beside(offset_of_op(
      costed.plan().programs, task, costed.blocks(), memory.peak_block, memory.peak_op));
  RecordedTask recorded{.ops = {row},
                        .memory = recorded_memory(memory, peak_offset, profile.duration)};
  auto const wait = [&](SimTime start, SimTime end, TracePhase phase) {
    if (start < end) {
      recorded.ops.push_back({.start = start, .end = end, .op = row.op, .phase = phase});
    }
  };
  wait(computed, computed + of_units, TracePhase::data_parallel);
  wait(computed + of_units, ran, TracePhase::transfer);
  if (ran < profile.duration) recorded.ops.push_back(recorded_wait(ran, profile.duration));
  return recorded;
}

/// Moves the rows of a task that runs beside another into its shorter duration. Each keeps its
/// place in the order: the trace shows a pair as one pass after the other.
void shorten(RecordedTask& task, TaskProfile const& profile) {
  for (RecordedOp& op : task.ops) {
    op.start = profile.beside(op.start);
    op.end = profile.beside(op.end);
  }
  for (RecordedMemory& state : task.memory) state.time = profile.beside(state.time);
}

}  // namespace

std::vector<RecordedMemory> recorded_memory(MemoryProfile const& profile,
                                            SimTime peak_time,
                                            SimTime end) {
  std::vector<RecordedMemory> states;
  if (profile.peak > 0) states.push_back({peak_time, profile.at_peak});
  CategoryBytes const last = states.empty() ? CategoryBytes{} : profile.at_peak;
  if (profile.net != last) states.push_back({end, profile.net});
  return states;
}

std::vector<RecordedTask> record_tasks(CostedPlan const& costed,
                                       Programs const& held,
                                       MemoryMoves& memories,
                                       std::size_t rank,
                                       TraceVocabulary const& vocabulary,
                                       TraceDetail detail) {
  StagePlan const& plan = costed.plan().stages[StageId::of_index(rank)];
  std::vector<RecordedTask> recorded;
  recorded.reserve(plan.tasks.size());
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    Task const& task = plan.tasks[i];
    TaskProfile const& profile = costed.tasks(rank)[i];
    if (task.kind == Task::Kind::step) {
      Op const& op = plan.step_ops[static_cast<std::size_t>(task.op)];
      RecordedOp row = recorded_op(op, vocabulary);
      row.stream = task.stream;
      row.end = profile.duration;
      recorded.push_back({.ops = {row}, .memory = {}});
    } else if (detail == TraceDetail::op) {
      SimTime const alone = profile.duration + profile.hidden.sum();
      recorded.push_back(record_ops(costed, held, task, vocabulary, alone));
      if (alone > profile.duration) shorten(recorded.back(), profile);
    } else {
      recorded.push_back(
          record_chunk(costed, task, vocabulary, profile, memories.of(task).profile));
    }
  }
  return recorded;
}

}  // namespace stagecraft
