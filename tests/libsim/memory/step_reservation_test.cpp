#include <catch2/catch.hpp>
#include <cstdint>

#include "libsim/memory/stage_memory.hpp"
#include "libsim/memory/stage_reservation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/odd_runs.hpp"

/// What the optimizer's step allocates beside the op program.
namespace stagecraft::step_reservation_test {

TEST_CASE("the step may widen narrow gradients until the next iteration", "[plan]") {
  TrainingConfig config = modest_run(1, 1);
  config.model.sequence = 8;
  config.batch.micro = 1;
  config.memory.allocator = AllocatorKind::arena;
  FrameworkMemory framework;
  framework.widens_gradients = true;
  auto const beyond_resident = [&](StateType gradients) {
    config.memory.gradient_dtype = gradients;
    TrainingPlan const plan = make_plan(as_settled(config));
    StagePlan const& stage = plan.stages.front();
    REQUIRE(peak_memory({plan, stage}).activation_peak < 4 * stage.parameters);
    return reserve_stage({plan, stage}, unlimited_capacity, framework).reserved -
           resident_memory(stage).sum();
  };
  std::int64_t const parameters = make_plan(as_settled(config)).stages.front().parameters;
  REQUIRE(beyond_resident(StateType::bf16) == 4 * parameters);
  REQUIRE(beyond_resident(StateType::fp32) < 4 * parameters);
}

TEST_CASE("a step over all parameters at once holds the root of each second moment", "[plan]") {
  // torch/optim/adam.py, _multi_tensor_adam: exp_avg_sq_sqrt, a tensor in fp32 for each parameter.
  TrainingConfig config = modest_run(1, 1);
  config.model.sequence = 8;
  config.batch.micro = 1;
  config.memory.allocator = AllocatorKind::arena;
  TrainingPlan const plan = make_plan(as_settled(config));
  StagePlan const& stage = plan.stages.front();
  REQUIRE(peak_memory({plan, stage}).activation_peak < 4 * stage.parameters);
  FrameworkMemory framework;
  framework.has_foreach_step = true;
  StageReservation const step = reserve_stage({plan, stage}, unlimited_capacity, framework);
  REQUIRE(step.allocated == resident_memory(stage).sum() + 4 * stage.parameters);
  REQUIRE(step.resident == resident_memory(stage).sum());
}

TEST_CASE("a stage without layers has no state for the step", "[plan]") {
  TrainingConfig config = modest_run(1, 3);
  config.layout = {.kind = LayerSplit::Kind::list,
                   .first = {},
                   .last = {},
                   .list = {2, 0, config.model.layers - 2}};
  config.memory.gradient_dtype = StateType::bf16;
  TrainingPlan const plan = make_plan(as_settled(config));
  FrameworkMemory framework;
  framework.has_foreach_step = framework.widens_gradients = true;
  StagePlan const& middle = plan.stages[StageId::of_index(1)];
  REQUIRE(reserve_stage({plan, middle}, unlimited_capacity, framework).resident == 0);
}

}  // namespace stagecraft::step_reservation_test
