#include "libsim/engine/store_window.hpp"

#include <catch2/catch.hpp>

#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft::store_window_test {

TEST_CASE("auto stores as many microbatches as fit on each stage, and not one more", "[engine]") {
  TrainingConfig config;
  config.model = gpt(8, 256, 4, 128, 1000);
  config.parallel.pipeline = 4;
  bool const is_interleaved = GENERATE(false, true);
  if (is_interleaved) {
    config.parallel.interleave = 2;
    config.schedule = {.kind = ScheduleKind::interleaved, .group = 4};
  }
  config.batch = {.global = 16, .micro = 1};
  config.memory.reserve = Bytes{1 << 20};
  config.recompute.front().granularity =
      GENERATE(RecomputeGranularity::selective, RecomputeGranularity::full);
  System system = lossy_system();
  Simulation const least = simulate(make_plan(as_settled(config)), system);
  std::int64_t const capacity = least.stages.front().peak() + (3 << 20);
  system.accelerator.memory.value = Bytes{capacity};

  TrainingConfig wanted = config;
  wanted.recompute.front().store_microbatches.automatic = true;
  TrainingConfig const resolved = resolve_store_windows(wanted, system);
  REQUIRE_FALSE(has_automatic_window(resolved));
  REQUIRE(resolved.recompute.size() == 4);
  Simulation const result = simulate(make_plan(as_settled(resolved)), system);
  int stored = 0;
  for (std::size_t stage = 0; stage < 4; ++stage) {
    REQUIRE(result.stages[stage].fits);
    StoreMicrobatches const window = resolved.recompute[stage].store_microbatches;
    stored += window.count;
    // The first window's forwards are all outstanding but one.
    int const all =
        std::min(16 * config.parallel.interleave, result.stages[stage].in_flight_chunks);
    REQUIRE(window.count <= all);
    if (window.count == all) continue;
    TrainingConfig more = resolved;
    ++more.recompute[stage].store_microbatches.count;
    REQUIRE_FALSE(simulate(make_plan(as_settled(more)), system).stages[stage].fits);
  }
  REQUIRE(stored > 0);
  REQUIRE(result.iteration < least.iteration);
}

TEST_CASE("a plan is not made of a window that is still open", "[engine]") {
  TrainingConfig config;
  config.model = gpt(2, 256, 4, 128, 1000);
  config.recompute.front().granularity = RecomputeGranularity::full;
  config.recompute.front().store_microbatches.automatic = true;
  REQUIRE_THROWS_AS(make_plan(as_settled(config)), std::invalid_argument);
}

}  // namespace stagecraft::store_window_test
