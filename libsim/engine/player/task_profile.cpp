#include "libsim/engine/player/task_profile.hpp"

#include <array>

namespace stagecraft {
namespace {

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
         : is_edge(block)              ? shares.head_and_embedding
         : phase == Phase::forward     ? shares.forward
         : phase == Phase::recompute   ? shares.recompute
                                       : shares.backward;
}

TimeShares shares_of(BlockProgram const& block, PassTimes const& times) {
  TimeShares shares;
  shares.data_parallel = times.data_parallel;
  if (is_edge(block)) {
    shares.head_and_embedding = times.duration - times.data_parallel;
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

}  // namespace

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
  return task.kind == Task::Kind::step
             ? profile_step(stage.step_ops[static_cast<std::size_t>(task.op)], cost)
             : profile_chunk(programs, task, blocks, cost);
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
