#include <catch2/catch.hpp>
#include <string>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft::shared_overlap_test {
namespace {

/// Four layers of 4 experts on two ranks, beside one that every token uses; one microbatch.
TrainingConfig mixture(bool overlaps) {
  TrainingConfig config;
  config.model = gpt(4, 128, 8, 64, 1000);
  config.model.biases = false;
  config.model.experts =
      ExpertsConfig{.count = 4, .per_token = 1, .ffn_hidden = 256, .shared_ffn_hidden = 512};
  config.parallel = {.data = 2, .expert = 2, .shared_expert_overlap = overlaps};
  config.batch = {.global = 2, .micro = 1};
  return config;
}

System with_rate(double rate) {
  System system = invented_system();
  system.node.all_gather.value = {.latency = {0}, .bandwidth = {rate}, .table = {}};
  system.calibration.overlap_slowdown.value = 0;
  return system;
}

double seconds(bool overlaps, double rate) {
  return to_seconds(simulate(make_plan(as_settled(mixture(overlaps))), with_rate(rate)).iteration);
}

/// What the products and activations of shared experts take in both passes of all layers.
double shared_seconds(double rate) {
  TrainingPlan const plan = make_plan(as_settled(mixture(false)));
  System const system = with_rate(rate);
  CostModel const cost{system, plan};
  double sum = 0;
  for (BlockProgram const& block : plan.programs.blocks) {
    if (block.kind != BlockProgram::Kind::layers) continue;
    for (Pass const pass : {Pass::forward, Pass::backward}) {
      for (Op const& op : block.ops(pass)) {
        // Not the sum of gradients behind them.
        bool const counts =
            to_string(op.name).starts_with("shared_experts.") && op.name.owner != "shared_experts";
        if (counts) sum += to_seconds(cost.duration(op));
      }
    }
  }
  return 4 * sum;
}

TEST_CASE("shared experts cost nothing beside exchanges that take longer", "[engine]") {
  // 64 rows of 256 bytes take milliseconds, and the shared experts' products microseconds.
  double const rate = 1e6;
  REQUIRE(shared_seconds(rate) > 1e-6);
  REQUIRE(seconds(false, rate) - seconds(true, rate) == Approx(shared_seconds(rate)).epsilon(1e-6));
}

TEST_CASE("exchanges cost nothing beside shared experts that take longer", "[engine]") {
  // What is left of an exchange is that of its probabilities, 4 bytes in place of 256 each.
  auto const slower = [](bool overlaps) {
    return seconds(overlaps, 1e13) - seconds(overlaps, 2e13);
  };
  REQUIRE(slower(false) > 0);
  REQUIRE(slower(true) < slower(false) / 30);
}

}  // namespace
}  // namespace stagecraft::shared_overlap_test
