#include <catch2/catch.hpp>
#include <vector>

#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/parameter_layout.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft::expert_groups_test {
namespace {

/// Two layers of 8 experts on the ranks of `parallel`.
TrainingConfig sparse(ParallelLayout const& parallel) {
  TrainingConfig config;
  config.model = gpt(2, 64, 8, 32, 128);
  config.model.experts = ExpertsConfig{.count = 8, .per_token = 2, .ffn_hidden = 96};
  config.parallel = parallel;
  config.parallel.sequence = parallel.tensor > 1;
  config.batch = {.global = 16, .micro = 2};
  return config;
}

std::vector<int> members(TrainingPlan const& plan, GroupId group, int rank) {
  std::vector<int> numbers;
  GroupMembership const membership = plan.groups.membership(group, RankId{rank}).value();
  for (RankId const member : membership.members) numbers.push_back(member.value());
  return numbers;
}

TEST_CASE("expert groups fold over tensor and data ranks as Megatron-LM's do", "[plan]") {
  // parallel_state.py, order etp-ep-edp-pp: 16 ranks, t 2, d 4, p 2, EP 4.
  TrainingPlan const plan =
      make_plan(as_settled(sparse({.tensor = 2, .pipeline = 2, .data = 4, .expert = 4})));
  GroupId const expert = plan.roles.expert.value();
  GroupId const holders = plan.roles.expert_gradients.value();
  REQUIRE_FALSE(plan.roles.expert_tensor);
  REQUIRE(members(plan, expert, 0) == std::vector{0, 1, 2, 3});
  REQUIRE(members(plan, expert, 6) == std::vector{4, 5, 6, 7});
  REQUIRE(members(plan, expert, 9) == std::vector{8, 9, 10, 11});
  REQUIRE(members(plan, holders, 1) == std::vector{1, 5});
  REQUIRE(members(plan, holders, 14) == std::vector{10, 14});
  TrainingPlan const cut = make_plan(
      as_settled(sparse({.tensor = 2, .pipeline = 2, .data = 4, .expert = 2, .expert_tensor = 2})));
  REQUIRE(members(cut, cut.roles.expert_tensor.value(), 3) == std::vector{2, 3});
  REQUIRE(members(cut, cut.roles.expert.value(), 0) == std::vector{0, 2});
  REQUIRE(members(cut, cut.roles.expert_gradients.value(), 0) == std::vector{0, 4});
  REQUIRE_FALSE(cut.roles.dispatch);
}

TEST_CASE("tokens are gathered over the ranks that split and share experts", "[plan]") {
  // Megatron-LM, token_dispatcher.py: tp_ep_group, of ETP x EP neighbouring ranks.
  auto const group_of = [](int expert, int expert_tensor) {
    TrainingConfig config = sparse(
        {.tensor = 2, .pipeline = 2, .data = 4, .expert = expert, .expert_tensor = expert_tensor});
    config.dispatch = Dispatch::allgather;
    TrainingPlan const plan = make_plan(as_settled(config));
    return members(plan, plan.roles.dispatch.value(), 9);
  };
  REQUIRE(group_of(2, 2) == std::vector{8, 9, 10, 11});
  REQUIRE(group_of(4, 1) == std::vector{8, 9, 10, 11});
  REQUIRE(group_of(1, 2) == std::vector{8, 9});
}

TEST_CASE("choices over the global batch are summed over all ranks of a stage", "[plan]") {
  // Megatron-LM, router.py: global_aux_loss reduces over tp_dp_cp_group, and keeps per layer the
  // sums of E experts and how many microbatches these are of, in fp32.
  TrainingConfig config = sparse({.tensor = 2, .pipeline = 2, .data = 2, .expert = 2});
  config.model.experts->router.loss = RouterLoss::auxiliary;
  config.model.experts->router.loss_coefficient = 0.01;
  TrainingPlan const without = make_plan(as_settled(config));
  REQUIRE_FALSE(without.roles.stage);
  config.model.experts->router.loss = RouterLoss::global_auxiliary;
  TrainingPlan const plan = make_plan(as_settled(config));
  REQUIRE(members(plan, plan.roles.stage.value(), 1) == std::vector{0, 1, 2, 3});
  REQUIRE(members(plan, plan.roles.stage.value(), 6) == std::vector{4, 5, 6, 7});
  for (StageId const stage : plan.stages.ids()) {
    REQUIRE(plan.stages[stage].state_bytes(Category::gradients) -
                without.stages[stage].state_bytes(Category::gradients) ==
            Bytes{4 * (8 + 1)});
    StepOp const& zeros = plan.stages[stage].step_ops[1];
    REQUIRE(zeros.name == Name{"step", "zero_counters"});
    REQUIRE(zeros.traffic == Bytes{4 * (8 + 1)});
  }
}

TEST_CASE("a dense plan has no expert groups", "[plan]") {
  TrainingConfig config = sparse({.data = 4});
  config.model.experts.reset();
  TrainingPlan const plan = make_plan(as_settled(config));
  REQUIRE_FALSE(plan.roles.expert_gradients);
  REQUIRE(plan.groups.grids().size() == 1);
}

TEST_CASE("optimizer state of experts is cut over the ranks that hold the same experts", "[plan]") {
  // Megatron-LM: 12 bytes over d of dense parameters, 12 over EDP of those of experts.
  TrainingConfig config = sparse({.data = 4, .expert = 2});
  config.sharding = sharding_of(true);
  TrainingPlan const plan = make_plan(as_settled(config));
  StagePlan const& stage = plan.stages.front();
  std::int64_t dense = 0, of_experts = 0;
  for (PlacedParameter const& placed : parameter_layout(plan, stage)) {
    (placed.parameter->experts > 1 ? of_experts : dense) += placed.elements();
  }
  // 2 layers of 4 local experts with up [96, 64] and down [64, 96] each.
  REQUIRE(of_experts == 2 * 4 * 2 * 96 * 64);
  std::int64_t const exact = 12 * (dense / 4 + of_experts / 2);
  REQUIRE(stage.state_bytes(Category::optimizer).count() >= exact);
  REQUIRE(stage.state_bytes(Category::optimizer).count() <
          exact + 12 * 4 * 8);  // shards are rounded up
}

TEST_CASE("all gradients are scaled by 1/d, and summed over the ranks that hold the same",
          "[plan]") {
  TrainingPlan const plan = make_plan(as_settled(sparse({.data = 4, .expert = 2})));
  StagePlan const& stage = plan.stages.front();
  std::int64_t summed = 0, of_experts = 0;
  for (StepOp const& op : stage.step_ops) {
    if (op.kind == OpKind::scale_gradients) {
      REQUIRE(std::get<ScaleAttributes>(op.attributes).factor == 0.25);
      REQUIRE(op.ranges.size() == 1);
      REQUIRE(op.ranges.front().count == stage.parameters);
    }
    if (op.kind != OpKind::all_reduce || op.phase != Phase::data_parallel) continue;
    for (ParameterRange const& range : op.ranges) {
      if (op.group == plan.roles.gradients) summed += range.count;
      if (op.group == plan.roles.expert_gradients) of_experts += range.count;
    }
  }
  REQUIRE(of_experts == 2 * 4 * 2 * 96 * 64);
  REQUIRE(summed + of_experts == stage.parameters);
}

TEST_CASE("experts that one rank alone holds are neither summed nor cut", "[plan]") {
  TrainingConfig config = sparse({.data = 4, .expert = 4});
  config.sharding = sharding_of(true);
  TrainingPlan const plan = make_plan(as_settled(config));
  REQUIRE(plan.groups.members(plan.roles.expert_gradients.value()) == 1);
  for (StepOp const& op : plan.stages.front().step_ops) {
    REQUIRE(op.group != plan.roles.expert_gradients);
  }
}

}  // namespace
}  // namespace stagecraft::expert_groups_test
