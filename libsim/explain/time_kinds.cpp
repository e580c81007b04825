#include "libsim/explain/time_kinds.hpp"

#include <algorithm>
#include <numeric>

namespace stagecraft {
namespace {

/// The shares of a task, or of a pass, that are spent waiting for collectives of layers.
TimeShares exposed_communication(BlockProgram const& block, PassTimes const& times, Pass pass) {
  TimeShares exposed;
  if (block.kind == BlockProgram::Kind::embedding || block.kind == BlockProgram::Kind::head) {
    return exposed;
  }
  std::vector<Op> const& ops = block.ops(pass);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind != OpKind::wait) continue;
    SimTime& share = ops[i].phase == Phase::forward     ? exposed.forward
                     : ops[i].phase == Phase::recompute ? exposed.recompute
                                                        : exposed.backward;
    share += times.end[i] - times.start[i];
  }
  return exposed;
}

TimeShares exposed_communication(CostedPlan const& costed, Task const& task) {
  TimeShares exposed;
  if (task.kind == Task::Kind::step) return exposed;
  Pass const pass = pass_of(task);
  for (TaskBlock const& of_task : blocks_in_order(costed.plan().programs, task)) {
    exposed += exposed_communication(costed.plan().programs.blocks[of_task.block],
                                     costed.blocks()[of_task.block].times(pass), pass);
  }
  return exposed;
}

KindTimes kinds_of(TimeShares const& shares, TimeShares const& exposed) {
  KindTimes kinds;
  kinds[TimeKind::forward] = shares.forward - exposed.forward;
  kinds[TimeKind::backward] = shares.backward - exposed.backward;
  kinds[TimeKind::recompute] = shares.recompute - exposed.recompute;
  kinds[TimeKind::tensor_parallel] = exposed.sum();
  kinds[TimeKind::head_and_embedding] = shares.head_and_embedding;
  kinds[TimeKind::data_parallel] = shares.data_parallel;
  kinds[TimeKind::optimizer] = shares.optimizer;
  return kinds;
}

}  // namespace

SimTime KindTimes::sum() const { return std::accumulate(times_.begin(), times_.end(), SimTime{0}); }

KindTimes& KindTimes::operator+=(KindTimes const& other) {
  for (std::size_t i = 0; i < times_.size(); ++i) times_[i] += other.times_[i];
  return *this;
}

KindTimes kinds_of_task(CostedPlan const& costed, StageId stage, std::size_t task, SimTime time) {
  TaskProfile const& profile = costed.tasks(stage.index())[task];
  KindTimes kinds = kinds_of(
      profile.shares, exposed_communication(costed, costed.plan().stages[stage].tasks[task]));
  kinds[TimeKind::data_parallel] += time - profile.duration;
  return kinds;
}

KindTimes kinds_of_busiest_stage(CostedPlan const& costed,
                                 RecordedTimes const& times,
                                 Simulation const& simulation) {
  std::size_t const stage = busiest_stage(simulation);
  StagePlan const& plan = costed.plan().stages[StageId::of_index(stage)];
  std::vector<TimeShares> exposed_by_task;
  for (Task const& task : plan.tasks)
    exposed_by_task.push_back(exposed_communication(costed, task));
  TimeShares shares = simulation.breakdown.shares;
  TimeShares exposed;
  std::vector<IssueEntry> const& entries = times.stages[stage].order.entries;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].kind != IssueEntry::Kind::run) continue;
    auto const task = static_cast<std::size_t>(entries[i].task);
    if (plan.tasks[task].stream != Stream::compute) continue;
    exposed += exposed_by_task[task];
    Interval const& ran = times.stages[stage].entries[i];
    SimTime const slowed = ran.end - ran.start - costed.tasks(stage)[task].duration;
    shares.backward -= slowed;  // simulate() counts it there
    shares.data_parallel += slowed;
  }
  KindTimes kinds = kinds_of(shares, exposed);
  kinds[TimeKind::pipeline_transfer] = simulation.breakdown.transfer;
  kinds[TimeKind::bubble] = simulation.breakdown.bubble;
  return kinds;
}

std::size_t busiest_stage(Simulation const& simulation) {
  auto const busiest =
      std::max_element(simulation.stages.begin(), simulation.stages.end(),
                       [](StageResult const& a, StageResult const& b) { return a.busy < b.busy; });
  return static_cast<std::size_t>(busiest - simulation.stages.begin());
}

}  // namespace stagecraft
