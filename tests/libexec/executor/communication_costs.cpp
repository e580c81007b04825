#include "tests/libexec/executor/communication_costs.hpp"

namespace stagecraft {

double collectives_in_a_row(TrainingPlan const& plan) {
  double count = 0;
  StagePlan const& rank = plan.stages.front();
  for (IssueEntry const& step : unroll(rank.program).entries) {
    if (step.kind != IssueEntry::Kind::run) continue;
    Task const& task = rank.tasks[static_cast<std::size_t>(step.task)];
    if (task.kind == Task::Kind::step) {
      count += rank.step_ops[static_cast<std::size_t>(task.op)].payload > Bytes{0} ? 1 : 0;
      continue;
    }
    Pass const pass = task.kind == Task::Kind::forward ? Pass::forward : Pass::backward;
    for (TaskBlock const& of_task : blocks_in_order(plan.programs, task)) {
      for (Op const& op : plan.programs.blocks[of_task.block].ops(pass)) {
        count += op.stream == Stream::tensor_parallel ? 1 : 0;
      }
    }
  }
  return count;
}

}  // namespace stagecraft
