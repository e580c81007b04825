#include "tests/libexec/executor/prices.hpp"

namespace stagecraft {

double collectives_in_a_row(TrainingPlan const& plan) {
  double count = 0;
  RankPlan const& rank = plan.ranks.front();
  for (Step const& step : rank.steps) {
    if (step.kind != Step::Kind::run) continue;
    Work const& work = rank.works[static_cast<std::size_t>(step.work)];
    if (work.kind == Work::Kind::step) {
      count += rank.step_ops[static_cast<std::size_t>(work.op)].payload > Bytes{0} ? 1 : 0;
      continue;
    }
    Pass const pass = work.kind == Work::Kind::forward ? Pass::forward : Pass::backward;
    for (std::int32_t const block : blocks_in_order(plan, work)) {
      for (Op const& op : plan.blocks[static_cast<std::size_t>(block)].ops(pass)) {
        count += op.stream == Stream::tensor_parallel ? 1 : 0;
      }
    }
  }
  return count;
}

}  // namespace stagecraft
