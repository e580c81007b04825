#include "tests/libsim/engine/op_by_op_replay.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "libsim/cost/cost_model.hpp"
#include "tests/libsim/engine/buffer_heap.hpp"
#include "tests/libsim/engine/replayed_messages.hpp"
#include "tests/libsim/engine/replayed_times.hpp"

namespace stagecraft {

namespace {

/// What makes a buffer of a microbatch's pass through a block findable again.
using Owner = std::tuple<ChunkId, MicrobatchId, std::size_t /*block*/>;

struct Meeting {
  int joined = 0;
  SimTime start{0};
  SimTime duration{0};
};

/// All that ranks share.
struct World {
  TrainingPlan const& plan;
  CostModel const& cost;
  std::vector<ReplayedMessage> messages;
  std::map<std::pair<GroupId, int>, Meeting> meetings;
};

class RankReplay {
 public:
  RankReplay(World& world, StagePlan const& rank)
      : world_{world},
        rank_{rank},
        order_{unroll(rank.program)},
        heap_{resident(rank)},
        messages_{world.plan, world.cost, world.messages, rank.stage, order_.transfers, heap_} {}

  bool is_done() const { return step_ == order_.entries.size(); }

  /// Goes as far as it can; returns whether it got anywhere.
  bool advance() {
    bool has_moved = false;
    while (!is_done() && take(order_.entries[step_])) {
      ++step_;
      has_moved = true;
    }
    return has_moved;
  }

  ReplayedRank finish() && {
    replayed_.at_peak = heap_.at_peak();
    replayed_.peak_at = heap_.peak_at();
    replayed_.activation_peak = heap_.activation_peak();
    replayed_.left = heap_.now();
    replayed_.end = std::max(clock_, data_parallel_idle_);
    return std::move(replayed_);
  }

 private:
  static CategoryBytes resident(StagePlan const& rank) {
    CategoryBytes bytes;
    bytes[Category::parameters] = rank.state_bytes(Category::parameters).count();
    bytes[Category::gradients] = rank.state_bytes(Category::gradients).count();
    bytes[Category::optimizer] = rank.state_bytes(Category::optimizer).count();
    return bytes;
  }

  bool take(IssueEntry const& step) {
    switch (step.kind) {
      case IssueEntry::Kind::post:
        messages_.post(step, clock_);
        return true;
      case IssueEntry::Kind::wait: {
        std::optional<SimTime> const over = messages_.wait(step, clock_);
        clock_ = over.value_or(clock_);
        return over.has_value();
      }
      case IssueEntry::Kind::drain:
        clock_ = std::max(clock_, data_parallel_idle_);
        return true;
      case IssueEntry::Kind::run:
      case IssueEntry::Kind::repeat:
        break;
    }
    Task const& task = rank_.tasks[static_cast<std::size_t>(step.task)];
    if (task.kind != Task::Kind::step) {
      run_chunk(task, step.microbatch);
      return true;
    }
    return run_step(task);
  }

  // ---- computation

  void run_chunk(Task const& task, MicrobatchId microbatch) {
    TrainingPlan const& plan = world_.plan;
    ChunkProgram const& chunk = plan.programs.chunks[static_cast<std::size_t>(task.program)];
    bool const is_forward = task.kind == Task::Kind::forward;
    auto const payload = is_forward ? Transfer::Payload::activation : Transfer::Payload::gradient;
    ReplayedMessages::Key const key{payload, chunk.chunk, microbatch};
    auto const first = static_cast<std::size_t>(task.first_block);
    auto const count = static_cast<std::size_t>(task.block_count);
    work_start_ = clock_;
    local_ = SimTime{0};
    work_ = on_links_ = SimTime{0};
    for (std::size_t i = first; i < first + count; ++i) {
      BlockProgram const& block = plan.programs.blocks[static_cast<std::size_t>(chunk.blocks[i])];
      ReplayedTimes const times =
          times_of(block, block.ops(is_forward ? Pass::forward : Pass::backward));
      work_ += times.duration;
      on_links_ += times.on_links;
    }
    std::optional<BufferHeap::Id> passed = std::exchange(between_buckets_, std::nullopt);
    if (!passed) passed = messages_.arrived(key);
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t const position = is_forward ? first + i : first + count - 1 - i;
      run_block(chunk, position, microbatch, is_forward ? Pass::forward : Pass::backward, passed);
    }
    clock_ = at(local_);
    delay_reductions();
    bool const is_whole = is_forward || task.first_block == 0;
    if (!is_whole) {
      between_buckets_ = passed;
      return;
    }
    bool const is_sent = is_forward ? !chunk.has_head : !chunk.has_embedding;
    if (is_sent) {
      if (!passed || heap_.bytes(*passed) != plan.message_bytes().count()) {
        throw std::logic_error{"a chunk hands over something other than a message"};
      }
      messages_.hand_over(key, *passed);
    }
    if (!is_forward && !chunk.has_head && !plan.config.memory.output_deallocation) {
      heap_.release(messages_.handed_over({Transfer::Payload::activation, chunk.chunk, microbatch}),
                    "the end of a backward");
    }
  }

  /// Time of the rank when `offset` of a task has been computed, were links not shared: the
  /// data-parallel stream, while it is busy, slows a task down as a whole.
  SimTime alone_at(SimTime offset) const {
    return slowed(work_start_, offset, data_parallel_idle_,
                  world_.cost.data_parallel_slowdown_millionths());
  }

  /// Until `offset` has been computed, for how long a reduction runs beside it.
  SimTime beside(SimTime offset) const {
    return std::max(std::min(alone_at(offset), data_parallel_idle_) - work_start_, SimTime{0});
  }

  /// The same with shared links: of what runs beside a reduction, the part in which collectives use
  /// its links takes twice as long.
  SimTime at(SimTime offset) const {
    if (on_links_ == SimTime{0}) return alone_at(offset);
    return alone_at(offset) + portion(beside(offset), on_links_, work_);
  }

  /// A chunk is over: reductions that ran beside it went as slowly as its collectives.
  void delay_reductions() {
    SimTime const both = beside(work_);
    if (both == SimTime{0} || on_links_ == SimTime{0}) return;
    SimTime const delay = portion(both, on_links_, work_);
    auto const later = [&](SimTime time) {
      SimTime const into = std::min(std::max(time - work_start_, SimTime{0}), both);
      return time + portion(into, delay, both);
    };
    for (std::size_t const row : reductions_) {
      replayed_.ops[row].start = later(replayed_.ops[row].start);
      replayed_.ops[row].end = later(replayed_.ops[row].end);
    }
    data_parallel_idle_ += delay;
  }

  ReplayedTimes times_of(BlockProgram const& block, std::vector<Op> const& ops) const {
    return replayed_times(ops, world_.cost, block.kind != BlockProgram::Kind::inputs);
  }

  void run_block(ChunkProgram const& chunk,
                 std::size_t position,
                 MicrobatchId microbatch,
                 Pass pass,
                 std::optional<BufferHeap::Id>& passed) {
    BlockProgram const& block =
        world_.plan.programs.blocks[static_cast<std::size_t>(chunk.blocks[position])];
    auto& buffers = buffers_[{chunk.chunk, microbatch, position}];
    bool const is_forward = pass == Pass::forward;
    if (is_forward) buffers.assign(block.tensors.size(), -1);
    auto const buffer_of = [&](TensorId id) -> BufferHeap::Id& {
      return buffers[static_cast<std::size_t>(block.tensor(id).buffer)];
    };
    if (TensorId const in = is_forward ? block.input : block.grad_output; in != no_tensor) {
      if (!passed) throw std::logic_error{"a block starts without its input"};
      if (heap_.bytes(*passed) != block.tensor(block.tensor(in).buffer).bytes().count()) {
        throw std::logic_error{"a block is handed a buffer of another size"};
      }
      buffer_of(in) = *passed;
    }
    std::int64_t first_layer = chunk.first_layer;
    for (std::size_t i = 0; i < position; ++i) {
      first_layer += world_.plan.programs.blocks[static_cast<std::size_t>(chunk.blocks[i])].layers;
    }
    std::vector<Op> const& ops = block.ops(pass);
    ReplayedTimes const times = times_of(block, ops);
    SimTime const begin = local_;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      Op const& op = ops[i];
      if (op.stream == Stream::compute) local_ = begin + times.start[i];
      for (BufferLife const& life : block.lives) {
        if (life.allocate_pass != pass || life.allocate != static_cast<std::int32_t>(i)) continue;
        Tensor const& tensor = block.tensor(life.buffer);
        buffer_of(life.buffer) =
            heap_.allocate(tensor.category, tensor.bytes().count(), at(local_));
      }
      for (TensorList const& operands : {op.reads, op.writes}) {
        for (TensorId const id : operands) {
          if (block.tensor(block.tensor(id).buffer).lifetime == Lifetime::job) continue;
          heap_.require(buffer_of(id), to_string(op.name));
        }
      }
      if (op.stream == Stream::compute) local_ = begin + times.end[i];
      replayed_.ops.push_back({.op = &op,
                               .start = at(begin + times.start[i]),
                               .end = at(begin + times.end[i]),
                               .layer = layer_of(block.kind, first_layer, op.layer),
                               .microbatch = microbatch.value(),
                               .chunk = chunk.chunk.value()});
      for (BufferLife const& life : block.lives) {
        if (life.release_pass != pass || life.release != static_cast<std::int32_t>(i)) continue;
        heap_.release(buffer_of(life.buffer), to_string(op.name));
      }
    }
    local_ = begin + times.duration;
    if (TensorId const out = is_forward ? block.output : block.grad_input; out != no_tensor) {
      passed = buffer_of(out);
    }
  }

  // ---- what happens once a step

  bool run_step(Task const& task) {
    Op const& op = rank_.step_ops[static_cast<std::size_t>(task.op)];
    SimTime const duration = world_.cost.duration(op);
    SimTime start = clock_;
    SimTime end{0};
    if (task.group) {
      auto const key = std::pair{*task.group, meetings_[*task.group]};
      Meeting& meeting = world_.meetings[key];
      if (!has_joined_) {
        has_joined_ = true;
        ++meeting.joined;
        meeting.start = std::max(meeting.start, clock_);
        meeting.duration = std::max(meeting.duration, duration);
      }
      auto const stages = world_.plan.groups.stages(*task.group, rank_.stage);
      if (meeting.joined < static_cast<int>(stages.size())) return false;
      has_joined_ = false;
      ++meetings_[*task.group];
      start = meeting.start;
      end = clock_ = start + meeting.duration;
    } else if (task.stream == Stream::data_parallel) {
      start = std::max(clock_, data_parallel_idle_);
      end = data_parallel_idle_ = start + duration;
      reductions_.push_back(replayed_.ops.size());
    } else {
      end = clock_ = slowed(clock_, duration, data_parallel_idle_,
                            world_.cost.data_parallel_slowdown_millionths());
    }
    replayed_.ops.push_back({.op = &op, .start = start, .end = end});
    return true;
  }

  World& world_;
  StagePlan const& rank_;
  IssueOrder order_;
  BufferHeap heap_;
  ReplayedMessages messages_;
  ReplayedRank replayed_;
  std::size_t step_ = 0;
  SimTime clock_{0};
  SimTime data_parallel_idle_{0};
  SimTime work_start_{0};
  SimTime local_{0};                     ///< computed so far of the task, were it not slowed down
  SimTime work_{0};                      ///< of the whole task
  SimTime on_links_{0};                  ///< of that, with collectives on the links of reductions
  std::vector<std::size_t> reductions_;  ///< rows of the data-parallel stream
  std::map<Owner, std::vector<BufferHeap::Id>> buffers_;  ///< by tensor of the block
  /// Gradient between two pieces of one backward.
  std::optional<BufferHeap::Id> between_buckets_;
  std::map<GroupId, int> meetings_;
  bool has_joined_ = false;
};

}  // namespace

ReplayedIteration replay_op_by_op(TrainingPlan const& plan, System const& system) {
  CostModel const cost{system, plan};
  World world{
      plan, cost, std::vector<ReplayedMessage>(static_cast<std::size_t>(plan.messages)), {}};
  std::deque<RankReplay> ranks;  // which do not move: messages know their order and their heap
  for (StagePlan const& rank : plan.stages) ranks.emplace_back(world, rank);
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (RankReplay& rank : ranks) has_moved = rank.advance() || has_moved;
  }
  ReplayedIteration iteration;
  for (RankReplay& rank : ranks) {
    if (!rank.is_done()) throw std::logic_error{"the replay is stuck"};
    ReplayedRank& replayed = iteration.ranks.emplace_back(std::move(rank).finish());
    iteration.makespan = std::max(iteration.makespan, replayed.end);
  }
  return iteration;
}

}  // namespace stagecraft
