#include "libsim/engine/composed_iteration.hpp"

#include <catch2/catch.hpp>

#include "libsim/engine/simulation.hpp"
#include "tests/libsim/engine/small_plans.hpp"
#include "tests/libsim/recorded.hpp"

// What a few microbatches of first, middle and last stage take makes the iteration of all.

namespace stagecraft::composed_iteration_test {
namespace {

std::string run_of(int microbatches, std::string const& rest) {
  return "model: {layers: 16, hidden: 64, heads: 4, sequence: 32, vocabulary: 128}\n"
         "batch: {global: " +
         std::to_string(microbatches) + ", micro: 1}\nsystem: selene-a100.yaml\n" + rest;
}

/// The iteration composed from stages of a shorter run, recorded by the simulator.
SimTime composed(std::string const& rest, int few, int many, std::vector<int> const& stages) {
  RecordOptions options;
  for (int const stage : stages) options.stages.emplace_back(stage);
  SmallPlan const shorter = make_small_plan(run_of(few, rest));
  SmallPlan const whole = make_small_plan(run_of(many, rest));
  Trace const trace = recorded(shorter.plan, shorter.system, options);
  std::map<StageId, std::vector<MeasuredTask>> measured;
  for (RankTrace const& rank : trace.ranks) {
    StagePlan const& plan = shorter.plan.stages[StageId{rank.stage}];
    measured[StageId{rank.stage}] = measured_tasks(plan, rank);
  }
  return compose_iteration(CostedPlan{whole.plan, whole.system}, measured);
}

SimTime simulated(std::string const& rest, int microbatches) {
  SmallPlan const whole = make_small_plan(run_of(microbatches, rest));
  return simulate(whole.plan, whole.system).iteration -
         CostedPlan{whole.plan, whole.system}.cost().iteration_overhead();
}

TEST_CASE("an iteration composed from three stages of a shorter one is the simulated one",
          "[engine]") {
  std::string const rest =
      GENERATE("parallel: {tensor: 2, pipeline: 4}\nschedule: {kind: 1f1b}\nrecompute: full\n",
               "parallel: {tensor: 2, pipeline: 4, sequence: true}\nschedule: {kind: gpipe}\n"
               "recompute: selective\n",
               "parallel: {tensor: 1, pipeline: 4, interleave: 2}\nschedule: {kind: interleaved}\n"
               "recompute: none\n");
  CAPTURE(rest);
  REQUIRE(composed(rest, 8, 24, {0, 2, 3}) == simulated(rest, 24));
}

TEST_CASE("an iteration without pipeline is composed from its one stage", "[engine]") {
  std::string const rest = "parallel: {tensor: 2, pipeline: 1}\nrecompute: full\n";
  REQUIRE(composed(rest, 2, 12, {0}) == simulated(rest, 12));
}

TEST_CASE("microbatches whose activations are all stored keep times of their own", "[engine]") {
  std::string const rest =
      "parallel: {tensor: 2, pipeline: 4}\nschedule: {kind: 1f1b}\n"
      "recompute: {granularity: selective, store_microbatches: 2}\n";
  // Every stage: how many are stored in a window depends on it.
  REQUIRE(composed(rest, 8, 24, {0, 1, 2, 3}) == simulated(rest, 24));
}

TEST_CASE("a stage stands for those of its recompute policy only", "[engine]") {
  std::string const rest =
      "parallel: {tensor: 2, pipeline: 4}\nschedule: {kind: 1f1b}\n"
      "recompute: {per_stage: [full, full, selective, selective]}\n";
  REQUIRE_THROWS_WITH(composed(rest, 8, 24, {0, 2, 3}), "stage 1 was not measured");
  REQUIRE(composed(rest, 8, 24, {0, 1, 2, 3}) == simulated(rest, 24));
}

TEST_CASE("a stage that no measured one stands for is named", "[engine]") {
  std::string const rest = "parallel: {tensor: 2, pipeline: 4}\nschedule: {kind: 1f1b}\n";
  REQUIRE_THROWS_WITH(composed(rest, 8, 24, {0, 3}), "stage 1 was not measured");
  REQUIRE_THROWS_WITH(composed(rest, 8, 24, {1, 3}), "stage 0 was not measured");
}

TEST_CASE("a trace op by op is no measurement of tasks", "[engine]") {
  SmallPlan const small =
      make_small_plan(run_of(8, "parallel: {tensor: 2, pipeline: 4}\nschedule: {kind: 1f1b}\n"));
  Trace const trace = recorded(
      small.plan, small.system,
      {.detail = TraceDetail::op, .stages = {StageId{1}}, .command_line = {}, .config = {}});
  REQUIRE_THROWS_WITH(measured_tasks(small.plan.stages[StageId{1}], trace.ranks.front()),
                      Catch::Contains("found a trace without exactly one row for each of the "));
}

}  // namespace
}  // namespace stagecraft::composed_iteration_test
