#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/memory/rank_memory.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/training/key_values.hpp"
#include "libsim/training/settled_config.hpp"
#include "tests/libexec/executor/plan_grid.hpp"
#include "tests/libexec/executor/run_checks.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libsim/invented_system.hpp"

namespace stagecraft::solo_test {
namespace {

TEST_CASE("a rank alone counts what the simulator predicts, to the byte, and stays finite",
          "[solo]") {
  std::vector<NamedRun> const grid = plan_grid();
  int checked = 0;
  // 5 has no factor in common with the cycles of layouts, variants and precisions.
  for (std::size_t i = 0; i < grid.size(); i += 5) {
    CAPTURE(grid[i].name);
    TrainingPlan const plan = make_plan(as_settled(completed(grid[i].config)));
    Simulation const predicted = simulate(plan, invented_system());
    int const ranks = world_size(plan.config.parallel);
    for (int const number : std::set<int>{0, ranks / 2, ranks - 1}) {
      CAPTURE(number);
      RankId const rank{number};
      ExecutionOptions options;
      options.steps = 2;
      Execution const counted = execute_alone(plan, rank, FreeCommunication{}, options);
      REQUIRE(counted.ranks.size() == 1);
      RankReport const& report = counted.ranks.front();
      REQUIRE(report.rank == rank);
      StageResult const& stage = predicted.stages[report.stage.index()];
      ++checked;
      for (int c = 0; c < category_count; ++c) {
        auto const category = static_cast<Category>(c);
        CAPTURE(name_of(category));
        if (category != Category::workspace) {
          CHECK(report.at_peak[category] == stage.at_peak[category]);
        }
      }
      CHECK(report.activation_peak == stage.activation_peak);
      // Loss scaling of fp16 begins where gradients overflow, here as among all ranks.
      if (plan.config.model.precision == Precision::fp16) continue;
      for (StepReport const& step : counted.steps) CHECK(std::isfinite(step.gradient_norm));
    }
  }
  REQUIRE(checked >= 60);
}

TEST_CASE("a rank alone pays for its collectives one after the other", "[solo]") {
  TrainingConfig config = small_gpt(Precision::fp32);
  config.parallel.tensor = 4;
  config.parallel.sequence = GENERATE(false, true);
  TrainingPlan const plan = make_plan(as_settled(config));
  ExecutionOptions options;
  options.steps = 2;
  for (StepReport const& step :
       execute_alone(plan, RankId{2}, DearCommunication{}, options).steps) {
    REQUIRE(step.seconds == Approx(collectives_in_a_row(plan)).margin(0.5));
  }
}

TEST_CASE("a rank alone pays for its blocking messages as if its peer were always there",
          "[solo]") {
  TrainingConfig config = small_gpt(Precision::fp32);
  config.parallel.pipeline = 2;
  // n + 1 exchanges of 3 s, and two reductions: the tied embedding's and the norm's (see
  // clock_test.cpp).
  Execution const alone =
      execute_alone(make_plan(as_settled(config)), RankId{1}, DearCommunication{});
  REQUIRE(alone.steps.front().seconds == Approx(5 * 3.0 + 2).margin(0.5));
}

// Ranks that run alone, to which others would send uneven rows.

/// Experts of which a file, a factor or the router itself decides how many rows they compute.
std::vector<TrainingConfig> uneven_runs_of_ranks() {
  TrainingConfig config = small_llama(Precision::fp64);
  config.model.experts =
      ExpertsConfig{.count = 4, .per_token = 2, .ffn_hidden = 12, .shared_ffn_hidden = 8};
  CountsFile file{"counts.csv", {}};
  for (std::int64_t layer = 0; layer < config.model.layers; ++layer) {
    file.layers.push_back({layer, every_microbatch, {16, 13, 3, 0}});
    file.layers.push_back({layer, BatchMicrobatchId{1}, {0, 2, 16, 14}});
  }
  std::vector<TrainingConfig> runs;
  for (Routing const& routing :
       {Routing{.counts = SharedCounts{file}}, Routing{.factor = 1.5}, Routing{.is_natural = true},
        Routing{.capacity = 1.25, .pads = false},
        Routing{.capacity = 0.75, .pads = true, .is_of_microbatch = true}}) {
    for (int const expert_tensor : {1, 2}) {
      config.routing = routing;
      config.parallel = {
          .tensor = 2, .data = 2, .sequence = true, .expert = 2, .expert_tensor = expert_tensor};
      runs.push_back(config);
    }
  }
  return runs;
}

TEST_CASE("a rank alone with uneven rows counts what its plan predicts, and stays finite",
          "[solo]") {
  for (TrainingConfig const& run : uneven_runs_of_ranks()) {
    TrainingConfig const config = completed(run);
    TrainingPlan const plan = make_plan(as_settled(config));
    for (int number = 0; number < world_size(config.parallel); ++number) {
      CAPTURE(to_json(run.routing).dump(), run.parallel.expert_tensor, number);
      ExecutionOptions options;
      options.steps = 2;
      Execution const counted = execute_alone(plan, RankId{number}, FreeCommunication{}, options);
      RankPrograms const own{plan, number};
      StageMemory const memory = peak_memory({plan, plan.stages.front(), *own});
      RankReport const& report = counted.ranks.front();
      for (int c = 0; c < category_count; ++c) {
        auto const category = static_cast<Category>(c);
        CAPTURE(name_of(category));
        if (category != Category::workspace) {
          CHECK(report.at_peak[category] == memory.at_peak[category]);
        }
      }
      for (StepReport const& step : counted.steps) CHECK(std::isfinite(step.gradient_norm));
    }
  }
}

}  // namespace

}  // namespace stagecraft::solo_test
