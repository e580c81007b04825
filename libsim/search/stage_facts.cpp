#include "libsim/search/stage_facts.hpp"

#include <optional>

#include "libsim/cost/cost_model.hpp"
#include "libsim/memory/stage_memory.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/plan/step_program.hpp"

namespace stagecraft {
namespace {

SimTime duration_of(std::vector<StepOp> const& ops, CostModel const& cost) {
  SimTime sum{0};
  for (Op const& op : ops) sum += cost.duration(op);
  return sum;
}

bool is_loop(Arrangement const& arrangement) {
  return traits_of(arrangement.schedule.kind).placement == PlacementShape::loop;
}

/// Whether parameters, optimizer state and the step depend on how a stage's layers are cut into
/// chunks. They do if layers differ, or if gradients are reduced while the last backward runs:
/// buckets then end with their chunk, and are padded if the optimizer is sharded.
bool depend_on_chunks(SearchRequest const& request,
                      LayerKinds const& kinds,
                      Arrangement const& arrangement,
                      Sharding sharding) {
  return !kinds.are_alike() || !is_loop(arrangement) ||
         overlaps_gradients(make_config(request, arrangement, {RecomputePolicy{}}, sharding));
}

}  // namespace

std::vector<StageFacts> make_stage_facts(SearchRequest const& request,
                                         LayerKinds const& kinds,
                                         Arrangement const& arrangement,
                                         Sharding sharding) {
  Arrangement plain = arrangement;
  if (is_loop(arrangement)) plain.schedule.kind = ScheduleKind::one_f_one_b;
  if (!depend_on_chunks(request, kinds, arrangement, sharding)) {
    plain.schedule.interleave = 1;
  } else if (plain.schedule.interleave > 1 && is_loop(arrangement)) {
    plain.schedule.kind = ScheduleKind::interleaved;
  }
  TrainingConfig config = make_config(request, plain, {RecomputePolicy{}}, sharding);
  // The programs of units differ by microbatch, their step does not.
  if (sharding.has_units()) config.batch.global = config.parallel.data * config.batch.micro;
  // Whether backwards are split makes no difference to the step.
  TrainingPlan const plan = make_programs(config, placement_of(plain.schedule), false);
  CostModel const cost{request.system, plan};
  ArrangedStages const stages{kinds, plain};
  std::vector<std::optional<StageFacts>> distinct(stages.distinct().size());
  std::vector<StageFacts> facts;
  facts.reserve(plan.stages.size());
  for (StagePlan const& of_plan : plan.stages) {
    std::optional<StageFacts>& made = distinct[stages.number_of(of_plan.stage)];
    if (!made) {
      StagePlan rank = of_plan;
      made.emplace();
      made->resident = Bytes{resident_memory(rank).sum()};
      append_begin_of_step(rank, plan);
      made->begin = duration_of(rank.step_ops, cost);
      rank.step_ops.clear();
      append_end_of_step(rank, plan, stage_ranges(plan, rank));
      made->end = duration_of(rank.step_ops, cost);
    }
    facts.push_back(*made);
  }
  return facts;
}

std::shared_ptr<std::vector<StageFacts> const> StageFactsCache::of(Arrangement const& arrangement,
                                                                   Sharding sharding) {
  LayerShares const& shares = arrangement.shares;
  bool const by_chunk = depend_on_chunks(request_, kinds_, arrangement, sharding);
  Key const key{arrangement.shape.tensor,
                arrangement.shape.sequence ? 1 : 0,
                arrangement.shape.expert,
                arrangement.shape.expert_tensor,
                arrangement.shape.context,
                arrangement.schedule.pipeline,
                by_chunk ? arrangement.schedule.interleave : 1,
                shares.first,
                shares.middle,
                shares.last,
                static_cast<std::int64_t>(sharding.kind),
                static_cast<std::int64_t>(sharding.strategy),
                sharding.group,
                sharding.overlap ? 1 : 0,
                static_cast<std::int64_t>(traits_of(arrangement.schedule.kind).placement)};
  {
    std::lock_guard const lock{mutex_};
    auto const found = known_.find(key);
    if (found != known_.end()) return found->second;
  }
  auto made = std::make_shared<std::vector<StageFacts> const>(
      make_stage_facts(request_, kinds_, arrangement, sharding));
  std::lock_guard const lock{mutex_};
  return known_.try_emplace(key, std::move(made)).first->second;
}

}  // namespace stagecraft
