#include "libsim/engine/store_window.hpp"

#include <catch2/catch.hpp>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/memory/summed_events.hpp"
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

TEST_CASE("auto stores the most with which the buffer events of a plan stay within the limit",
          "[engine]") {
  System system = invented_system();
  for (OddRun const& run : odd_runs()) {
    TrainingConfig config = run.config;
    config.memory.reserve = Bytes{0};
    config.recompute.resize(static_cast<std::size_t>(config.parallel.pipeline),
                            config.recompute.front());
    for (RecomputePolicy& policy : config.recompute) policy.store_microbatches = {.count = 1};
    for (std::size_t stage = 0; stage < config.recompute.size(); ++stage) {
      StoreMicrobatches& window = config.recompute[stage].store_microbatches;
      auto const resolved = [&](std::int64_t limit) {
        TrainingConfig wanted = config;
        wanted.recompute[stage].store_microbatches = {.automatic = true};
        system.accelerator.memory.value = Bytes{limit};
        TrainingConfig const found = resolve_store_windows(wanted, system);
        return found.recompute[found.recompute.size() == 1 ? 0 : stage].store_microbatches.count;
      };
      int const all = resolved(std::int64_t{1} << 50);
      std::vector<std::int64_t> peaks;
      for (int count = 0; count <= all; ++count) {
        window = {.count = count};
        TrainingPlan const plan = make_plan(as_settled(config));
        std::int64_t const workspace = CostModel{system, plan}.workspace().count();
        peaks.push_back(workspace +
                        summed_events(plan, plan.stages[StageId::of_index(stage)]).at_peak.sum());
      }
      for (std::int64_t const limit : peaks) {
        int most = all;
        while (peaks[static_cast<std::size_t>(most)] > limit) --most;
        CAPTURE(run.name, stage, limit);
        REQUIRE(resolved(limit) == most);
      }
      window = {.count = 1};
    }
  }
}

TEST_CASE("a plan is not made of a window that is still open", "[engine]") {
  TrainingConfig config;
  config.model = gpt(2, 256, 4, 128, 1000);
  config.recompute.front().granularity = RecomputeGranularity::full;
  config.recompute.front().store_microbatches.automatic = true;
  REQUIRE_THROWS_AS(make_plan(as_settled(config)), ScheduleError);
}

}  // namespace stagecraft::store_window_test
