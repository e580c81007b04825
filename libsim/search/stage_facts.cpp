#include "libsim/search/stage_facts.hpp"

#include "libsim/cost/cost_model.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/plan/stage_memory.hpp"
#include "libsim/plan/step_program.hpp"

namespace stagecraft {
namespace {

std::int64_t price_of(std::vector<Op> const& ops, CostModel const& cost) {
  SimTime sum{0};
  for (Op const& op : ops) sum += cost.price(op);
  return sum.count();
}

}  // namespace

RoleFacts make_role_facts(SearchRequest const& request,
                          Arrangement const& arrangement,
                          bool distributed_optimizer) {
  // Parameters do not depend on how a stage's layers are cut into chunks, nor on microbatches.
  Arrangement plain = arrangement;
  plain.schedule.interleave = 1;
  plain.schedule.kind = ScheduleKind::one_f_one_b;
  TrainingConfig const config =
      make_config(request, plain, {RecomputePolicy{}}, distributed_optimizer);
  TrainingPlan const plan = make_programs(config);
  CostModel const cost{request.system, plan};
  int const p = config.parallel.pipeline;
  RoleFacts facts;
  for (int const stage : {0, p > 2 ? 1 : 0, p - 1}) {
    StagePlan rank = plan.stages[static_cast<std::size_t>(stage)];
    StageFacts& made = facts[static_cast<std::size_t>(role_of(stage, p))];
    made.resident = resident_memory(rank).sum();
    append_begin_of_step(rank, plan);
    made.begin = price_of(rank.step_ops, cost);
    rank.step_ops.clear();
    append_end_of_step(rank, plan);
    made.end = price_of(rank.step_ops, cost);
  }
  return facts;
}

RoleFacts RoleFactsCache::of(Arrangement const& arrangement, bool distributed_optimizer) {
  LayerShares const& shares = arrangement.shares;
  Key const key{arrangement.shape.tensor,
                arrangement.shape.sequence ? 1 : 0,
                arrangement.schedule.pipeline,
                shares.layers[0],
                shares.layers[1],
                shares.layers[2],
                distributed_optimizer ? 1 : 0};
  {
    std::lock_guard const lock{mutex_};
    auto const found = known_.find(key);
    if (found != known_.end()) return found->second;
  }
  RoleFacts const made = make_role_facts(request_, arrangement, distributed_optimizer);
  std::lock_guard const lock{mutex_};
  return known_.try_emplace(key, made).first->second;
}

}  // namespace stagecraft
