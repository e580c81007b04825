#include "libsim/plan/training_plan.hpp"

#include <algorithm>
#include <utility>

#include "libsim/plan/ordered_schedule.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/plan/received_rows.hpp"
#include "libsim/plan/stage_tasks.hpp"
#include "libsim/plan/step_program.hpp"

namespace stagecraft {

Bytes TrainingPlan::message_bytes() const {
  return Bytes{shape.local_sequence() * shape.micro * shape.model.hidden *
               element_size(activation_type(shape.model.precision))};
}

Bytes TrainingPlan::sent_bytes() const {
  return scatters_messages() ? Bytes{message_bytes().count() / shape.tensor} : message_bytes();
}

bool TrainingPlan::scatters_messages() const {
  return config.schedule.scatter_gather && !shape.sequence_parallel && shape.tensor > 1;
}

std::vector<GroupId> TrainingPlan::gradient_groups() const {
  std::vector<GroupId> made;
  for (GroupId const group : groups.ids()) {
    if (groups[group].holders) made.push_back(group);
  }
  return made;
}

GroupId TrainingPlan::holders_of(Parameter const& parameter) const {
  return parameter.holders.value_or(roles.gradients);
}

namespace {

/// Sets the levels of context parallelism.
void split_sequences(TrainingPlan& plan) {
  ParallelLayout const& layout = plan.config.parallel;
  ContextLevel const outer{layout.context / layout.context_inner,
                           plan.roles.context.value_or(GroupId{})};
  if (layout.context_method == ContextMethod::ulysses) {
    plan.shape.exchange = outer;
    return;
  }
  plan.shape.exchange = {layout.context_inner, plan.roles.context_inner.value_or(GroupId{})};
  plan.shape.keys = outer;
  plan.shape.gathers_keys = layout.context_method == ContextMethod::all_gather;
}

}  // namespace

TrainingPlan make_outline(TrainingConfig const& config, RankChoice ranks) {
  TrainingPlan plan;
  plan.config = config;
  plan.ranks = std::move(ranks);
  plan.forced = forced_routing(config);
  auto [groups, roles] = make_groups(config);
  plan.groups = std::move(groups);
  plan.roles = roles;
  plan.shape = {.model = config.model,
                .tensor = config.parallel.tensor,
                .sequence_parallel = config.parallel.sequence && config.parallel.tensor > 1,
                .micro = config.batch.micro,
                .tensor_group = roles.tensor,
                .expert = config.parallel.expert,
                .expert_tensor = config.parallel.expert_tensor,
                .narrow_gradients = config.memory.gradient_dtype == StateType::bf16,
                .capacity = config.routing.capacity.value_or(0),
                .is_of_microbatch = config.routing.is_of_microbatch,
                .gathers = config.dispatch == Dispatch::allgather,
                .sends_once = config.dispatch == Dispatch::deepep,
                .pads_experts = config.routing.pads,
                .drop = config.routing.drop,
                .is_natural = config.routing.is_natural,
                .forced = plan.forced.get(),
                .kv_group = roles.kv_replicas.value_or(GroupId{}),
                .expert_group = roles.expert.value_or(GroupId{}),
                .expert_tensor_group = roles.expert_tensor.value_or(GroupId{}),
                .expert_holders = roles.expert_gradients.value_or(GroupId{})};
  split_sequences(plan);
  return plan;
}

RecomputePolicy const& policy_of(TrainingConfig const& config, StageId stage) {
  return config.recompute.size() == 1 ? config.recompute.front() : config.recompute[stage.index()];
}

std::vector<std::int32_t> blocks_in_order(TrainingPlan const& plan, Task const& task) {
  std::vector<std::int32_t> const& all = plan.chunks[static_cast<std::size_t>(task.program)].blocks;
  auto const first = all.begin() + task.first_block;
  std::vector<std::int32_t> blocks(first, first + task.block_count);
  if (task.kind != Task::Kind::forward) std::reverse(blocks.begin(), blocks.end());
  return blocks;
}

void lay_out_stage(TrainingPlan const& plan, PipelineSchedule const& schedule, StagePlan& stage) {
  append_begin_of_step(stage, plan);
  append_microbatches(stage, plan, schedule);
  append_end_of_step(stage, plan);
}

TrainingPlan make_plan(TrainingConfig const& config, RankChoice ranks) {
  ScheduleShape const shape = checked_shape(schedule_shape(config));
  if (shape.order) check_recompute_tasks(config, *shape.order);
  if (recomputes_early(config) && config.schedule.kind != ScheduleKind::order) {
    throw ScheduleError{"recompute.early", "'bubble', whose places depend on costs",
                        "no, or an order that has them, as --print-config writes it"};
  }
  TrainingPlan plan =
      make_programs(config, placement_of(shape), splits_backward(shape), std::move(ranks));
  PipelineSchedule const schedule = lay_out_checked(shape);
  plan.channels = schedule.channels;
  plan.messages = schedule.messages;
  plan.most_queued = schedule.most_queued;
  for (StagePlan& stage : plan.stages) lay_out_stage(plan, schedule, stage);
  return plan;
}

}  // namespace stagecraft
