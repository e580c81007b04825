#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "libsim/memory/rank_memory.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/training/routing_reader.hpp"
#include "libsim/training/settled_config.hpp"
#include "tests/libexec/executor/communication_costs.hpp"
#include "tests/libexec/executor/lone_rank.hpp"
#include "tests/libexec/executor/small_runs.hpp"

/// Ranks that run alone, to which others would send uneven rows.
namespace stagecraft::uneven_alone_test {
namespace {

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
}  // namespace stagecraft::uneven_alone_test
