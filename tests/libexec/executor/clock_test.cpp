#include <catch2/catch.hpp>

#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libexec/executor/communication_costs.hpp"
#include "tests/libexec/executor/small_runs.hpp"

namespace stagecraft::clock_test {
namespace {

TEST_CASE("in virtual time collectives take their duration, in every iteration anew", "[clock]") {
  TrainingConfig config = small_gpt(Precision::fp32);
  config.parallel.tensor = 4;
  config.parallel.sequence = GENERATE(false, true);
  DearCommunication const costs;
  SmallRun run{.costs = &costs};
  run.options.steps = 3;
  run.options.is_virtual = true;
  double const expected = collectives_in_a_row(make_plan(as_settled(config)));
  REQUIRE(expected > 50);
  for (StepReport const& step : execute(config, run).steps) {
    REQUIRE(step.seconds == Approx(expected).margin(0.5));
  }
}

TEST_CASE("in virtual time blocking messages take theirs, as the simulator's do", "[clock]") {
  TrainingConfig config = small_gpt(Precision::fp32);
  config.parallel.pipeline = 2;
  DearCommunication const costs;
  SmallRun run{.costs = &costs};
  run.options.steps = 2;
  run.options.is_virtual = true;
  // 1F1B with p = 2 and n = 4 is (n + 1) exchanges of x beside the computation, and the reduction
  // of the tied embedding and of the norm: megatron-semantics.md, section 1.2; x is 3 s.
  for (StepReport const& step : execute(config, run).steps) {
    REQUIRE(step.seconds == Approx(5 * 3.0 + 2).margin(0.5));
  }
}

}  // namespace
}  // namespace stagecraft::clock_test
