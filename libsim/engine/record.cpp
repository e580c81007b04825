#include "libsim/engine/record.hpp"

#include <algorithm>
#include <stdexcept>

#include "libsim/engine/player/recorded_times.hpp"
#include "libsim/engine/recorded_task.hpp"
#include "libsim/host/program_version.hpp"
#include "libsim/memory/message_buffers.hpp"
#include "libsim/memory/reserved_states.hpp"
#include "libsim/memory/stage_memory.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/rank_programs.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_names.hpp"
#include "libsim/trace/trace_writer.hpp"

namespace stagecraft {

namespace {

/// Takes one stage's entries in issue order and appends their rows. Used once.
///
/// Owns the trace; plans, times and vocabulary are the caller's. Columns have room for all rows
/// from the start. Between two entries, the first `op_rows_` and `memory_rows_` of them are
/// written, `now_` is what the stage holds, and `clock_` is the end of what its compute stream has
/// run.
class StageRecorder {
 public:
  /// All references must outlive the object.
  StageRecorder(CostedPlan const& costed,
                Programs const& held,
                RecordedTimes const& times,
                TraceVocabulary const& vocabulary,
                StageId stage,
                TraceDetail detail)
      : costed_{costed},
        held_{held},
        plan_{costed.plan().stages[stage]},
        profiles_{costed.tasks(stage.index())},
        times_{times.stages[stage.index()]},
        vocabulary_{vocabulary},
        moves_{costed.plan(), held},
        of_entries_{moves_.of(times_.order.entries, plan_.tasks, times_.order.transfers)},
        tasks_{record_tasks(costed, held, moves_, stage.index(), vocabulary, detail)},
        detail_{detail},
        now_{resident_memory(plan_)} {
    trace_.rank = stage.value();
    trace_.stage = plan_.stage.value();
    now_[Category::workspace] = costed.cost().workspace().count();
    make_room();
  }

  RankTrace record(SimTime makespan) && {
    add_memory(SimTime{0}, now_);
    for (std::size_t i = 0; i < times_.order.entries.size(); ++i) {
      add(times_.order.entries[i], of_entries_[i]->profile, times_.entries[i]);
    }
    SimTime const overhead = costed_.cost().iteration_overhead();
    if (overhead > SimTime{0}) {
      add_row({.end = overhead,
               .op = TraceVocabulary::iteration_overhead,
               .phase = TracePhase::optimizer},
              {makespan, makespan + overhead}, no_microbatch, -1);
    }
    trace_.ops.resize(op_rows_);
    trace_.memory.resize(memory_rows_);
    if (detail_ == TraceDetail::op) add_reserved();
    return std::move(trace_);
  }

 private:
  void make_room() {
    std::size_t ops = 1;     // the iteration's overhead
    std::size_t memory = 1;  // the start
    for (IssueEntry const& entry : times_.order.entries) {
      memory += 3;  // an entry's peak and end, and the end of an output that was kept
      if (entry.kind == IssueEntry::Kind::run) {
        ops += tasks_[static_cast<std::size_t>(entry.task)].ops.size();
        memory += tasks_[static_cast<std::size_t>(entry.task)].memory.size();
      }
      if (entry.kind == IssueEntry::Kind::post) ops += static_cast<std::size_t>(entry.count);
    }
    trace_.ops.resize(ops);
    trace_.memory.resize(memory);
  }

  void add(IssueEntry const& entry, MemoryProfile const& memory, Interval const& time) {
    switch (entry.kind) {
      case IssueEntry::Kind::run:
        add_run(entry, memory, time);
        return;
      case IssueEntry::Kind::post:
        add_transfers(entry);
        break;
      case IssueEntry::Kind::wait:
      case IssueEntry::Kind::drain:
      case IssueEntry::Kind::repeat:
        clock_ = std::max(clock_, time.end);
        break;
    }
    add_states(memory, clock_);
  }

  void add_run(IssueEntry const& entry, MemoryProfile const& memory, Interval const& time) {
    auto const index = static_cast<std::size_t>(entry.task);
    Task const& task = plan_.tasks[index];
    RecordedTask const& recorded = tasks_[index];
    std::int32_t const chunk = task.kind == Task::Kind::step ? -1 : task.chunk.value();
    SimTime const alone = profiles_[index].duration;
    TaskBesideReductions const running{
        .start = time.start,
        .duration = alone,
        .on_links = profiles_[index].on_links,
        .busy_until = data_parallel_idle_,
        .slowdown_millionths = costed_.cost().data_parallel_slowdown_millionths()};
    // The events inside a task that is slowed down are later, too.
    auto const at = [&, is_stretched = time.end - time.start != alone](SimTime offset) {
      return is_stretched ? running.reaches(offset) : time.start + offset;
    };
    // A group lasts as long as its slowest member: its one row is the interval itself.
    if (task.kind == Task::Kind::step) {
      add_row(recorded.ops.front(), time, entry.microbatch, chunk);
    } else {
      for (RecordedOp const& op : recorded.ops) {
        add_row(op, {at(op.start), at(op.end)}, entry.microbatch, chunk);
      }
    }
    for (RecordedMemory const& state : recorded.memory) {
      add_memory(at(state.time), now_ + state.bytes);
    }
    if (task.stream == Stream::data_parallel) {
      // The end if nothing else shares its links from here on: later tasks that do still delay it.
      data_parallel_idle_ = task.group ? time.end : std::max(clock_, data_parallel_idle_) + alone;
      if (task.group) clock_ = time.end;
    } else if (kind_of(task.stream) != StreamKind::offload) {
      data_parallel_idle_ += running.delay();
      clock_ = time.end;
    }
    now_ += memory.net;
    if (releases_output(costed_.plan(), task)) add_memory(clock_, now_);
  }

  void add_transfers(IssueEntry const& entry) {
    for (std::int32_t i = entry.first; i < entry.first + entry.count; ++i) {
      auto const index = static_cast<std::size_t>(i);
      Transfer const& transfer = times_.order.transfers[index];
      add_row({.op = vocabulary_.index_of(transfer),
               .phase = TracePhase::transfer,
               .stream = stream_of(transfer),
               .bytes = costed_.plan().sent_bytes().count()},
              times_.transfers[index], transfer.microbatch, transfer.chunk.value());
    }
  }

  void add_states(MemoryProfile const& profile, SimTime time) {
    for (RecordedMemory const& state : recorded_memory(profile, time, time)) {
      add_memory(time, now_ + state.bytes);
    }
    now_ += profile.net;
  }

  /// Each row of memory is one of the states, in their order. At op detail only states that equal
  /// the one before are left out.
  void add_reserved() {
    MemoryColumns& memory = trace_.memory;
    std::vector<ReservedState> const states = reserved_states({costed_.plan(), plan_, held_});
    std::size_t state = 0;
    for (std::size_t row = 0; row < memory.rows(); ++row) {
      while (!is_state(row, states[state])) {
        if (++state == states.size())
          throw std::logic_error{"a state of memory that no buffer makes"};
      }
      memory.reserved.push_back(states[state].reserved);
    }
  }
  bool is_state(std::size_t row, ReservedState const& state) const {
    for (std::size_t i = 0; i < trace_.memory.bytes.size(); ++i) {
      auto const category = static_cast<Category>(i);
      if (category == Category::workspace) continue;
      if (trace_.memory.bytes[i][row] != state.held[category]) return false;
    }
    return true;
  }

  void add_row(RecordedOp const& op,
               Interval const& time,
               MicrobatchId microbatch,
               std::int32_t chunk) {
    OpColumns& ops = trace_.ops;
    std::size_t const row = op_rows_++;
    ops.start[row] = time.start.count();
    ops.duration[row] = (time.end - time.start).count();
    ops.op[row] = op.op;
    ops.phase[row] = static_cast<std::int64_t>(op.phase);
    ops.stream[row] = static_cast<std::int64_t>(op.stream);
    ops.layer[row] = op.layer;
    ops.microbatch[row] = microbatch.value();
    ops.chunk[row] = chunk;
    ops.bytes[row] = op.bytes;
    ops.flops[row] = op.flops;
  }

  void add_memory(SimTime time, CategoryBytes const& bytes) {
    MemoryColumns& memory = trace_.memory;
    std::size_t const row = memory_rows_++;
    memory.time[row] = time.count();
    for (std::size_t i = 0; i < memory.bytes.size(); ++i) {
      memory.bytes[i][row] = bytes[static_cast<Category>(i)];
    }
  }

  CostedPlan const& costed_;
  Programs const& held_;  ///< the programs of the rank whose memory is recorded
  StagePlan const& plan_;
  std::vector<TaskProfile> const& profiles_;
  RecordedStage const& times_;
  TraceVocabulary const& vocabulary_;
  MemoryMoves moves_;
  std::vector<MemoryMove const*> of_entries_;  ///< by position in the issue order; of moves_
  std::vector<RecordedTask> tasks_;
  TraceDetail detail_;
  CategoryBytes now_;
  SimTime clock_{0};               ///< end of what the compute stream has run
  SimTime data_parallel_idle_{0};  ///< end of what the data-parallel stream has run
  RankTrace trace_;
  std::size_t op_rows_ = 0;
  std::size_t memory_rows_ = 0;
};

/// The trace of the rank that stands for a stage. Its rows are the stage's issue entries at their
/// times; its memory is that of the stage's fullest rank, whose programs (RankPrograms) are `held`.
RankTrace record_stage(CostedPlan const& costed,
                       Programs const& held,
                       RecordedTimes const& times,
                       TraceVocabulary const& vocabulary,
                       StageId stage,
                       TraceDetail detail) {
  return StageRecorder{costed, held, times, vocabulary, stage, detail}.record(times.makespan);
}

TraceMeta meta_of(TrainingPlan const& plan, System const& system, RecordOptions const& options) {
  return {.program_version = std::string{program_version()},
          .command_line = options.command_line,
          .config = options.config,
          .plan = fingerprint(plan),
          .device = system.name,
          .clock = TraceClock::simulated};
}

/// The stages to record, ascending, each once.
std::vector<StageId> chosen_stages(TrainingPlan const& plan, std::vector<StageId> const& asked) {
  std::vector<StageId> stages = asked;
  auto const count = static_cast<std::int32_t>(plan.stages.size());
  if (stages.empty()) {
    for (std::int32_t stage = 0; stage < count; ++stage) stages.emplace_back(stage);
  }
  std::sort(stages.begin(), stages.end());
  stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  for (StageId const stage : {stages.front(), stages.back()}) {
    if (stage.value() < 0 || stage.value() >= count) {
      throw std::invalid_argument{"stage: found '" + std::to_string(stage.value()) +
                                  "'; accepted: 0 to " + std::to_string(count - 1)};
    }
  }
  return stages;
}

}  // namespace

void record_to_file(std::filesystem::path const& path,
                    PlayedIteration const& played,
                    RecordOptions const& options) {
  TrainingPlan const& plan = played.costed.plan();
  std::vector<StageId> const stages = chosen_stages(plan, options.stages);
  TraceVocabulary const vocabulary{plan};
  TraceWriter writer{path, meta_of(plan, played.costed.system(), options), vocabulary.names()};
  for (StageId const stage : stages) {
    RankPrograms const held{plan, played.simulation.stages[stage.index()].rank()};
    writer.write(
        record_stage(played.costed, *held, played.times, vocabulary, stage, options.detail));
  }
  writer.finish();
}

}  // namespace stagecraft
