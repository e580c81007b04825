#include "libsim/engine/player/task_profile.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "libsim/engine/player/pass_pair.hpp"

namespace stagecraft {
namespace {

/// A type for the product of two times in picoseconds.
__extension__ using WideTime = __int128;

constexpr std::array<SimTime TimeShares::*, 7> all_shares{
    &TimeShares::forward,       &TimeShares::backward,
    &TimeShares::recompute,     &TimeShares::head_and_embedding,
    &TimeShares::data_parallel, &TimeShares::optimizer,
    &TimeShares::offload};

bool is_edge(BlockProgram const& block) {
  return block.kind == BlockProgram::Kind::embedding || block.kind == BlockProgram::Kind::head;
}

/// The share that a phase of a block's ops counts in.
SimTime& share_of(BlockProgram const& block, Phase phase, TimeShares& shares) {
  return phase == Phase::data_parallel ? shares.data_parallel
         : phase == Phase::offload     ? shares.offload
         : is_edge(block)              ? shares.head_and_embedding
         : phase == Phase::forward     ? shares.forward
         : phase == Phase::recompute   ? shares.recompute
                                       : shares.backward;
}

TimeShares shares_of(BlockProgram const& block, PassTimes const& times) {
  TimeShares shares;
  shares.data_parallel = times.data_parallel;
  shares.offload = times.offload;
  if (is_edge(block)) {
    shares.head_and_embedding = times.duration - times.data_parallel - times.offload;
  } else {
    shares.forward = times.forward;
    shares.backward = times.backward;
    shares.recompute = times.recompute;
  }
  return shares;
}

TaskProfile profile_step(Op const& op, CostModel const& cost) {
  TaskProfile profile;
  profile.duration = cost.duration(op);
  bool const is_offload = kind_of(op.stream) == StreamKind::offload;
  (is_offload                         ? profile.shares.offload
   : op.phase == Phase::data_parallel ? profile.shares.data_parallel
                                      : profile.shares.optimizer) = profile.duration;
  return profile;
}

TaskProfile profile_chunk(Programs const& programs,
                          Task const& task,
                          std::vector<BlockProfile> const& blocks,
                          CostModel const& cost) {
  Pass const pass = pass_of(task);
  TaskProfile profile;
  SimTime behind = cost.host_time_of_pass();
  for (TaskBlock const& of_task : blocks_in_order(programs, task)) {
    PassTimes const& times = blocks[of_task.block].times(pass);
    profile.duration += times.duration;
    behind -= times.host_ahead;
    profile.on_links += times.on_links;
    BlockProgram const& block = programs.blocks[of_task.block];
    profile.shares += shares_of(block, times);
    for (HostWait const& wait : times.host_waits) {
      share_of(block, wait.phase, profile.host_waits) += wait.duration();
    }
  }
  if (behind <= SimTime{0}) return profile;
  profile.duration += behind;
  auto const share = pass == Pass::forward     ? &TimeShares::forward
                     : pass == Pass::recompute ? &TimeShares::recompute
                                               : &TimeShares::backward;
  profile.shares.*share += behind;
  profile.host_waits.*share += behind;
  return profile;
}

/// The blocks of a task in the order in which they run; its layers are [first_layers, end_layers).
struct BlockSpan {
  std::vector<TaskBlock> blocks;
  std::size_t first_layers = 0;
  std::size_t end_layers = 0;
};

BlockSpan span_of(Programs const& programs, Task const& task) {
  BlockSpan span{.blocks = blocks_in_order(programs, task)};
  auto const is_of_layers = [&](TaskBlock const& of_task) {
    return programs.blocks[of_task.block].kind == BlockProgram::Kind::layers;
  };
  auto const first = std::ranges::find_if(span.blocks, is_of_layers);
  auto const end = std::find_if_not(first, span.blocks.end(), is_of_layers);
  span.first_layers = static_cast<std::size_t>(first - span.blocks.begin());
  span.end_layers = static_cast<std::size_t>(end - span.blocks.begin());
  return span;
}

/// The time that two passes through chunks save if they run beside each other. What is saved are
/// exchanges, and it is split in proportion to those of each pass.
/// Layers run in pairs; what comes before and after them, and layers without a partner, run alone.
TimeShares hidden_in_pair(Programs const& programs,
                          Task const& forward,
                          Task const& backward,
                          std::vector<BlockProfile> const& blocks,
                          CostModel const& cost) {
  BlockSpan const ahead = span_of(programs, forward);
  BlockSpan const back = span_of(programs, backward);
  SimTime alone{0};
  SimTime issued{0};
  SimTime sent{0};      // exchanges of the forward
  SimTime returned{0};  // exchanges of the backward
  auto const nodes = [&](BlockSpan const& span, std::size_t number, Pass pass) {
    std::size_t const block = span.blocks[number].block;
    PassTimes const& times = blocks[block].times(pass);
    alone += times.duration;
    issued += times.duration - times.host_ahead;
    return nodes_of(programs.blocks[block].ops(pass), times);
  };
  auto const of_forward = [&](std::size_t i) {
    std::vector<PassNode> made = nodes(ahead, i, pass_of(forward));
    sent += exchange_time(made);
    return made;
  };
  auto const of_backward = [&](std::size_t i) {
    std::vector<PassNode> made = nodes(back, i, pass_of(backward));
    returned += exchange_time(made);
    return made;
  };
  PairPlayer pair{cost.dispatch_slowdown_millionths(), cost.leaves_multiprocessors()};
  for (std::size_t i = 0; i < ahead.first_layers; ++i) pair.forward(of_forward(i));
  for (std::size_t i = 0; i < back.first_layers; ++i) pair.backward(of_backward(i));
  std::size_t i = ahead.first_layers;
  std::size_t j = back.first_layers;
  while (i < ahead.end_layers && j < back.end_layers) {
    std::vector<PassNode> const layer = of_forward(i++);
    pair.together(layer, of_backward(j++));
  }
  while (j < back.blocks.size()) pair.backward(of_backward(j++));
  while (i < ahead.blocks.size()) pair.forward(of_forward(i++));
  // The host issues both.
  SimTime const hidden = std::max(alone - std::max(pair.end(), issued), SimTime{0});
  TimeShares shares;
  if (hidden == SimTime{0}) return shares;
  WideTime const of_backward_part = static_cast<WideTime>(hidden.count()) * returned.count();
  shares.backward =
      SimTime{static_cast<std::int64_t>(of_backward_part / (sent + returned).count())};
  shares.forward = hidden - shares.backward;
  return shares;
}

}  // namespace

SimTime TaskProfile::beside(SimTime alone) const {
  SimTime const taken_off = hidden.sum();
  if (taken_off == SimTime{0}) return alone;
  WideTime const part = static_cast<WideTime>(alone.count()) * duration.count();
  return SimTime{static_cast<std::int64_t>(part / (duration + taken_off).count())};
}

SimTime TimeShares::sum() const {
  SimTime sum{0};
  for (auto const part : all_shares) sum += this->*part;
  return sum;
}

TimeShares& TimeShares::operator+=(TimeShares const& other) {
  for (auto const part : all_shares) this->*part += other.*part;
  return *this;
}

TimeShares& TimeShares::operator-=(TimeShares const& other) {
  for (auto const part : all_shares) this->*part -= other.*part;
  return *this;
}

std::vector<BlockProfile> profile_blocks(Programs const& programs, CostModel const& cost) {
  std::vector<BlockProfile> profiles;
  profiles.reserve(programs.blocks.size());
  for (BlockProgram const& block : programs.blocks) {
    profiles.push_back({.forward = time_pass(block, Pass::forward, cost),
                        .backward = time_pass(block, Pass::backward, cost),
                        .input_gradient = time_pass(block, Pass::input_gradient, cost),
                        .weight_gradient = time_pass(block, Pass::weight_gradient, cost),
                        .recompute = time_pass(block, Pass::recompute, cost)});
  }
  return profiles;
}

TaskProfile profile_task(Programs const& programs,
                         StagePlan const& stage,
                         Task const& task,
                         std::vector<BlockProfile> const& blocks,
                         CostModel const& cost) {
  if (task.kind == Task::Kind::step) {
    return profile_step(stage.step_ops[static_cast<std::size_t>(task.op)], cost);
  }
  TaskProfile profile = profile_chunk(programs, task, blocks, cost);
  if (task.beside < 0) return profile;
  Task const& first = stage.tasks[static_cast<std::size_t>(task.beside)];
  bool const is_forward = pass_of(task) == Pass::forward;
  profile.hidden =
      hidden_in_pair(programs, is_forward ? task : first, is_forward ? first : task, blocks, cost);
  profile.duration -= profile.hidden.sum();
  profile.shares -= profile.hidden;
  // Waits for the host are shortened as all of the task.
  for (auto const part : all_shares) {
    profile.host_waits.*part = profile.beside(profile.host_waits.*part);
  }
  return profile;
}

SimTime offset_of_op(Programs const& programs,
                     Task const& task,
                     std::vector<BlockProfile> const& blocks,
                     std::int32_t block,
                     std::int32_t op) {
  SimTime offset{0};
  if (op < 0) return offset;
  Pass const pass = pass_of(task);
  std::vector<TaskBlock> const order = blocks_in_order(programs, task);
  auto const number = static_cast<std::size_t>(block);
  for (std::size_t i = 0; i < number; ++i) offset += blocks[order[i].block].times(pass).duration;
  std::size_t const last = order[number].block;
  return offset + issue_time(programs.blocks[last].ops(pass), blocks[last].times(pass),
                             static_cast<std::size_t>(op));
}

}  // namespace stagecraft
