#include <catch2/catch.hpp>

#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libexec/executor/plan_grid.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libsim/invented_system.hpp"

namespace stagecraft::memory_test {
namespace {

TEST_CASE("what is counted is what the simulator predicts, to the byte, on more than 100 plans",
          "[memory]") {
  std::vector<NamedRun> const grid = plan_grid();
  REQUIRE(grid.size() >= 100);
  for (NamedRun const& run : grid) {
    CAPTURE(run.name);
    TrainingPlan const plan = make_plan(as_settled(completed(run.config)));
    Simulation const predicted = simulate(plan, invented_system());
    Execution const counted = execute(run.config, {.gemm = GemmKind::openblas});
    REQUIRE(counted.ranks.size() == static_cast<std::size_t>(world_size(run.config.parallel)));
    for (RankReport const& rank : counted.ranks) {
      StageResult const& stage = predicted.stages[rank.stage.index()];
      CAPTURE(rank.rank.value(), rank.stage.value());
      for (int i = 0; i < category_count; ++i) {
        auto const category = static_cast<Category>(i);
        CAPTURE(name_of(category));
        if (category != Category::workspace) {
          CHECK(rank.at_peak[category] == stage.at_peak[category]);
        }
      }
      CHECK(rank.activation_peak == stage.activation_peak);
    }
  }
}

}  // namespace
}  // namespace stagecraft::memory_test
