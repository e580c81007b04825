#include "libsim/engine/stack_memory.hpp"

#include <catch2/catch.hpp>

#include "libsim/memory/stage_reservation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/odd_runs.hpp"

namespace stagecraft::stack_memory_test {
namespace {

/// The bytes of a stack on one stage that are allocated at the peak.
std::int64_t allocated(TrainingConfig const& config, System const& system) {
  TrainingPlan const plan = make_plan(as_settled(config));
  return reserve_stage({plan, plan.stages.front()}, unlimited_capacity, stack_memory(plan, system))
      .allocated;
}

TEST_CASE("FlashAttention's output is kept twice where it is taken", "[engine]") {
  TrainingConfig config = modest_run(2, 1);
  config.model.attention = Attention::flash;
  config.batch.global = config.batch.micro;
  config.memory.allocator = AllocatorKind::arena;
  System system;
  MemoryUse& memory = system.software.memory;
  auto const more = [&](int compute_capability) {
    system.accelerator.compute_capability.value = compute_capability;
    memory.transposed_attention.value = false;
    std::int64_t const without = allocated(config, system);
    memory.transposed_attention.value = true;
    return allocated(config, system) - without;
  };
  ModelConfig const& model = config.model;
  std::int64_t const output = 2 * config.batch.micro * model.sequence * model.hidden / 2;
  REQUIRE(model.dropout > 0);
  REQUIRE(more(8) == model.layers * output);
  REQUIRE(more(9) == 0);
  REQUIRE(more(10) == 0);
  config.deterministic = true;  // cuDNN has no deterministic backward with dropout on Blackwell
  REQUIRE(more(9) == 0);
  REQUIRE(more(10) == model.layers * output);
  // The copy leaves with all that a layer saves.
  config.offload.activations.layers = static_cast<int>(model.layers / 2);
  REQUIRE(more(10) == model.layers / 2 * output);
  config.offload = {};
  config.model.dropout = 0;
  REQUIRE(more(10) == 0);
}

TEST_CASE("the environment's workspace takes the place of the stack's, if it has one", "[engine]") {
  TrainingConfig config = modest_run(1, 1);
  config.memory.cublas_workspace = Bytes{7 << 20};
  TrainingPlan const plan = make_plan(as_settled(config));
  System system;
  REQUIRE(stack_memory(plan, system).workspace == Bytes{0});
  system.software.memory.workspace.value = {{0, Bytes{3 << 20}}};
  REQUIRE(stack_memory(plan, system).workspace == Bytes{7 << 20});
}

TEST_CASE("a router brings the library's workspace where products do not", "[engine]") {
  TrainingConfig config = modest_run(1, 1);
  System system;
  system.software.memory.router_workspace.value = {{0, Bytes{3 << 20}}};
  auto const shared = [&] {
    TrainingPlan const plan = make_plan(as_settled(config));
    return stack_memory(plan, system).shared_workspace;
  };
  REQUIRE(shared() == Bytes{0});
  config.model.experts = ExpertsConfig{.count = 4, .per_token = 1, .ffn_hidden = 64};
  REQUIRE(shared() == Bytes{3 << 20});
}

}  // namespace
}  // namespace stagecraft::stack_memory_test
