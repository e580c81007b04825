#include <catch2/catch.hpp>
#include <cstdint>

#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/engine/random_runs.hpp"
#include "tests/libsim/memory/summed_events.hpp"

namespace stagecraft::random_memory_test {

TEST_CASE("the summaries of tasks peak as the stream of buffer events does, on random plans",
          "[memory]") {
  RandomRuns random{20};
  constexpr int runs = 150;
  for (int i = 0; i < runs; ++i) {
    TrainingPlan const plan = make_plan(as_settled(random.config(3)));
    std::vector<StageMemory> const memory = peak_memory(plan);
    for (StagePlan const& stage : plan.stages) {
      CAPTURE(i, stage.stage.value());
      StageMemory const expected = summed_events(plan, stage);
      StageMemory const& found = memory[stage.stage.index()];
      REQUIRE(found.at_peak == expected.at_peak);
      REQUIRE(found.activation_peak == expected.activation_peak);
      REQUIRE(found.peak_entry == expected.peak_entry);
    }
  }
}

}  // namespace stagecraft::random_memory_test
