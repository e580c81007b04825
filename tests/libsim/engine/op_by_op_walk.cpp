#include "tests/libsim/engine/op_by_op_walk.hpp"

#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "libsim/cost/cost_model.hpp"
#include "tests/libsim/engine/buffer_heap.hpp"

namespace stagecraft {

namespace {

__extension__ using Wide = __int128;
constexpr std::int64_t million = 1'000'000;

/// When `duration` of computation that starts at `start` ends, if until `busy_until` it runs at
/// (1 - slowdown) of its speed. Rounded to the nearest picosecond.
SimTime slowed(SimTime start, SimTime duration, SimTime busy_until, int slowdown) {
  std::int64_t const speed = million - slowdown;  // millionths
  Wide const task = static_cast<Wide>(duration.count()) * million;
  Wide const busy = static_cast<Wide>(std::max(busy_until - start, SimTime{0}).count());
  if (busy * speed >= task) {
    return start + SimTime{static_cast<std::int64_t>((task + speed / 2) / speed)};
  }
  Wide const rest = task - busy * speed + million / 2;
  return start + SimTime{static_cast<std::int64_t>(busy + rest / million)};
}

/// What makes a buffer of a microbatch's pass through a block findable again.
using Owner = std::tuple<ChunkId, std::int32_t /*microbatch*/, std::size_t /*block*/>;

struct Message {
  std::optional<SimTime> sent, received;  ///< posts
  std::optional<SimTime> start, end;
};

struct Meeting {
  int joined = 0;
  SimTime start{0};
  SimTime duration{0};
};

/// All that ranks share.
struct World {
  TrainingPlan const& plan;
  CostModel const& cost;
  std::vector<Message> messages;
  std::map<std::pair<GroupId, int>, Meeting> meetings;
};

class RankWalk {
 public:
  RankWalk(World& world, StagePlan const& rank)
      : world_{world}, rank_{rank}, order_{unroll(rank.program)}, heap_{resident(rank)} {}

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

  WalkedRank finish() && {
    walked_.at_peak = heap_.at_peak();
    walked_.peak_at = heap_.peak_at();
    walked_.activation_peak = heap_.activation_peak();
    walked_.left = heap_.now();
    walked_.end = std::max(clock_, data_parallel_idle_);
    return std::move(walked_);
  }

 private:
  static CategoryBytes resident(StagePlan const& rank) {
    CategoryBytes bytes;
    bytes[Category::parameters] = rank.parameter_bytes.count();
    bytes[Category::gradients] = rank.gradient_bytes.count();
    bytes[Category::optimizer] = rank.optimizer_bytes.count();
    return bytes;
  }

  bool take(IssueEntry const& step) {
    switch (step.kind) {
      case IssueEntry::Kind::post:
        for (std::int32_t i = 0; i < step.count; ++i) post(transfer(step.first + i));
        return true;
      case IssueEntry::Kind::wait:
        return wait(step);
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

  // ---- messages

  Transfer const& transfer(std::int32_t index) const {
    return order_.transfers[static_cast<std::size_t>(index)];
  }
  Message& message(Transfer const& transfer) const {
    return world_.messages[static_cast<std::size_t>(transfer.message)];
  }
  MessageCost cost_of(Transfer const& transfer) const {
    bool const sends = transfer.end == Transfer::End::send;
    return world_.cost.message_cost(sends ? rank_.stage : transfer.peer,
                                    sends ? transfer.peer : rank_.stage);
  }
  bool is_blocking() const { return world_.plan.config.schedule.p2p == P2p::blocking; }

  void post(Transfer const& transfer) {
    Message& shared = message(transfer);
    MessageCost const cost = cost_of(transfer);
    bool const sends = transfer.end == Transfer::End::send;
    (sends ? shared.sent : shared.received) = clock_;
    if (is_blocking()) {
      if (shared.sent && shared.received) {
        shared.start = std::max(*shared.sent, *shared.received);
        shared.end = *shared.start + cost.latency + cost.occupancy;
      }
    } else if (sends) {
      SimTime& idle = send_idle_[transfer.payload];
      shared.start = std::max(clock_, idle);
      idle = *shared.start + cost.occupancy;
      shared.end = idle + cost.latency;
    }
    if (sends) return;
    bool const scatters = world_.plan.scatters_messages();
    std::int64_t const whole = world_.plan.message_bytes().count();
    receiving_[transfer.message] =
        heap_.allocate(scatters ? Category::communication : Category::activations,
                       scatters ? whole / world_.plan.shape.tensor : whole, clock_);
  }

  bool wait(IssueEntry const& step) {
    SimTime over = clock_;
    for (std::int32_t i = 0; i < step.count; ++i) {
      Transfer const& one = transfer(step.first + i);
      Message const& shared = message(one);
      if (!shared.end) return false;
      bool const has_left = !is_blocking() && one.end == Transfer::End::send;
      over = std::max(over, has_left ? *shared.end - cost_of(one).latency : *shared.end);
    }
    clock_ = over;
    for (std::int32_t i = 0; i < step.count; ++i) end(transfer(step.first + i));
    return true;
  }

  void end(Transfer const& transfer) {
    auto const key = std::tuple{transfer.payload, transfer.chunk, transfer.microbatch};
    if (transfer.end == Transfer::End::send) {
      bool const is_kept = transfer.payload == Transfer::Payload::activation &&
                           !world_.plan.config.memory.output_deallocation;
      if (!is_kept) heap_.release(outgoing_.at(key), "the end of a send");
      return;
    }
    BufferHeap::Id buffer = receiving_.at(transfer.message);
    if (world_.plan.scatters_messages()) {
      BufferHeap::Id const shard = buffer;
      buffer = heap_.allocate(Category::activations, world_.plan.message_bytes().count(), clock_);
      heap_.release(shard, "the gather of a message");
    }
    incoming_[key] = buffer;
  }

  // ---- computation

  void run_chunk(Task const& task, std::int32_t microbatch) {
    TrainingPlan const& plan = world_.plan;
    ChunkProgram const& chunk = plan.chunks[static_cast<std::size_t>(task.program)];
    bool const is_forward = task.kind == Task::Kind::forward;
    auto const payload = is_forward ? Transfer::Payload::activation : Transfer::Payload::gradient;
    auto const key = std::tuple{payload, chunk.chunk, microbatch};
    auto const first = static_cast<std::size_t>(task.first_block);
    auto const count = static_cast<std::size_t>(task.block_count);
    work_start_ = clock_;
    local_ = SimTime{0};
    std::optional<BufferHeap::Id> passed = std::exchange(between_buckets_, std::nullopt);
    if (auto const arrived = incoming_.find(key); !passed && arrived != incoming_.end()) {
      passed = arrived->second;
    }
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t const position = is_forward ? first + i : first + count - 1 - i;
      run_block(chunk, position, microbatch, is_forward ? Pass::forward : Pass::backward, passed);
    }
    clock_ = at(local_);
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
      outgoing_[key] = *passed;
    }
    if (!is_forward && !chunk.has_head && !plan.config.memory.output_deallocation) {
      heap_.release(outgoing_.at({Transfer::Payload::activation, chunk.chunk, microbatch}),
                    "the end of a backward");
    }
  }

  /// Time of the rank when `offset` of a task has been computed: the data-parallel stream, while it
  /// is busy, slows a task down as a whole.
  SimTime at(SimTime offset) const {
    return slowed(work_start_, offset, data_parallel_idle_,
                  world_.cost.data_parallel_slowdown_millionths());
  }

  struct OpTimes {
    std::vector<SimTime> start, end;
    SimTime duration{0};
  };

  /// When the ops of a block run, from its begin: as if the host were always ahead, and then, if it
  /// takes longer than that, with what it is behind spread over the ops by what each costs it.
  OpTimes times_of(std::vector<Op> const& ops, bool waits_for_host) const {
    OpTimes times;
    SimTime tensor_parallel_idle{0};
    SimTime host{0};
    for (Op const& op : ops) {
      SimTime start = times.duration;
      SimTime end = start;
      if (op.stream == Stream::tensor_parallel) {
        start = std::max(start, tensor_parallel_idle);
        end = tensor_parallel_idle = start + world_.cost.duration(op);
      } else if (op.kind == OpKind::wait) {
        end = times.duration = std::max(start, times.end[static_cast<std::size_t>(op.waits_for)]);
      } else {
        end = times.duration = slowed(start, world_.cost.duration(op), tensor_parallel_idle,
                                      world_.cost.slowdown_millionths());
      }
      times.start.push_back(start);
      times.end.push_back(end);
      host += world_.cost.host_time(op);
    }
    if (tensor_parallel_idle > times.duration) {
      throw std::logic_error{"a block leaves a collective behind"};
    }
    if (!waits_for_host || host <= times.duration) return times;
    Wide const behind = (host - times.duration).count();
    Wide issued = 0;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      issued += world_.cost.host_time(ops[i]).count();
      Wide const share = (2 * behind * issued + host.count()) / (2 * host.count());
      times.start[i] += SimTime{static_cast<std::int64_t>(share)};
      times.end[i] += SimTime{static_cast<std::int64_t>(share)};
    }
    times.duration = host;
    return times;
  }

  void run_block(ChunkProgram const& chunk,
                 std::size_t position,
                 std::int32_t microbatch,
                 Pass pass,
                 std::optional<BufferHeap::Id>& passed) {
    BlockProgram const& block =
        world_.plan.blocks[static_cast<std::size_t>(chunk.blocks[position])];
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
      first_layer += world_.plan.blocks[static_cast<std::size_t>(chunk.blocks[i])].layers;
    }
    std::vector<Op> const& ops = block.ops(pass);
    OpTimes const times = times_of(ops, block.kind != BlockProgram::Kind::inputs);
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
      walked_.ops.push_back({.op = &op,
                             .start = at(begin + times.start[i]),
                             .end = at(begin + times.end[i]),
                             .layer = layer_of(block.kind, first_layer, op.layer),
                             .microbatch = microbatch,
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
    } else {
      end = clock_ = slowed(clock_, duration, data_parallel_idle_,
                            world_.cost.data_parallel_slowdown_millionths());
    }
    walked_.ops.push_back({.op = &op, .start = start, .end = end});
    return true;
  }

  World& world_;
  StagePlan const& rank_;
  IssueOrder order_;
  BufferHeap heap_;
  WalkedRank walked_;
  std::size_t step_ = 0;
  SimTime clock_{0};
  SimTime data_parallel_idle_{0};
  SimTime work_start_{0};
  SimTime local_{0};  ///< computed so far of the task, were it not slowed down
  std::map<Transfer::Payload, SimTime> send_idle_;
  std::map<std::int32_t, BufferHeap::Id> receiving_;  ///< by message
  std::map<std::tuple<Transfer::Payload, ChunkId, std::int32_t>, BufferHeap::Id> incoming_;
  std::map<std::tuple<Transfer::Payload, ChunkId, std::int32_t>, BufferHeap::Id> outgoing_;
  std::map<Owner, std::vector<BufferHeap::Id>> buffers_;  ///< by tensor of the block
  /// Gradient between two pieces of one backward.
  std::optional<BufferHeap::Id> between_buckets_;
  std::map<GroupId, int> meetings_;
  bool has_joined_ = false;
};

}  // namespace

WalkedIteration walk_op_by_op(TrainingPlan const& plan, System const& system) {
  CostModel const cost{system, plan};
  World world{plan, cost, std::vector<Message>(static_cast<std::size_t>(plan.messages)), {}};
  std::vector<RankWalk> ranks;
  for (StagePlan const& rank : plan.stages) ranks.emplace_back(world, rank);
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (RankWalk& rank : ranks) has_moved = rank.advance() || has_moved;
  }
  WalkedIteration iteration;
  for (RankWalk& rank : ranks) {
    if (!rank.is_done()) throw std::logic_error{"the walk is stuck"};
    WalkedRank& walked = iteration.ranks.emplace_back(std::move(rank).finish());
    iteration.makespan = std::max(iteration.makespan, walked.end);
  }
  return iteration;
}

}  // namespace stagecraft
