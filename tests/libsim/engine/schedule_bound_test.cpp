#include "libsim/engine/schedule_bound.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "libsim/engine/settle.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/engine/verdict.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/engine/random_runs.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/odd_runs.hpp"
#include "tests/libsim/split_runs.hpp"

namespace stagecraft::schedule_bound_test {
namespace {

/// The iteration of a run over its bound; 0 if it has none.
double over_bound(TrainingConfig const& config, System const& system) {
  TrainingPlan const plan = make_plan(settled(config, system));
  ScheduleBound const bound = schedule_bound(plan, system);
  CHECK(bound.reason.empty() == bound.iteration.has_value());
  if (!bound.iteration) return 0;
  return to_seconds(simulate(plan, system).iteration) / to_seconds(*bound.iteration);
}

/// The system with just the memory that the run needs.
System with_little_memory(System system, TrainingConfig const& config) {
  TrainingPlan const plan = make_plan(settled(config, system));
  std::int64_t peak = 0;
  for (StageResult const& stage : simulate(plan, system).stages) {
    peak = std::max(peak, stage.peak());
  }
  std::int64_t const kept = system.accelerator.memory.value.count() -
                            room_for(plan.config.memory, system.accelerator).count();
  system.accelerator.memory.value = Bytes{peak + kept};
  return system;
}

/// Whether memory raises the bound of a run that has no more than it needs.
bool memory_raises_bound(TrainingConfig const& config, System const& roomy) {
  System const system = with_little_memory(roomy, config);
  TrainingPlan const plan = make_plan(settled(config, system));
  ScheduleBound const bound = schedule_bound(plan, system);
  CHECK(bound.reason_in_memory.empty() == bound.in_memory.has_value());
  if (!bound.in_memory) return false;
  CHECK(*bound.in_memory > *bound.iteration);
  CHECK(simulate(plan, system).iteration >= *bound.in_memory);
  return true;
}

}  // namespace

TEST_CASE("no run is faster than the bound in the memory that it needs", "[engine]") {
  std::vector<OddRun> runs = split_runs();
  for (OddRun& run : odd_runs()) runs.push_back(std::move(run));
  int raised = 0;
  for (OddRun const& run : runs) {
    CAPTURE(run.name);
    raised += memory_raises_bound(run.config, invented_system()) ? 1 : 0;
  }
  RandomRuns random{72};
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    TrainingConfig const config = random.config(4);
    raised += memory_raises_bound(config, random.system()) ? 1 : 0;
  }
  REQUIRE(raised >= 3);  // else nothing was tested
}

TEST_CASE("one stage never waits, so no order beats its own", "[engine]") {
  TrainingConfig config = modest_run(1, 1);
  for (RecomputeGranularity const granularity :
       {RecomputeGranularity::none, RecomputeGranularity::full}) {
    config.recompute.front().granularity = granularity;
    CHECK(over_bound(config, invented_system()) == Approx(1).epsilon(1e-9));
  }
}

TEST_CASE("no schedule is faster than the bound of its passes", "[engine]") {
  std::vector<OddRun> runs = split_runs();
  for (OddRun& run : odd_runs()) runs.push_back(std::move(run));
  for (OddRun const& run : runs) {
    CAPTURE(run.name);
    double const ratio = over_bound(run.config, invented_system());
    CHECK((ratio == 0 || ratio >= 1));
  }
}

TEST_CASE("reductions that hide behind passes do not count towards the bound", "[engine]") {
  System system = invented_system();
  system.network.bandwidth.value.value /= 1000;
  system.node.accelerators.value = 1;
  TrainingConfig config = modest_run(1, 1, 8);
  config.parallel.overlap_gradients = true;
  for (bool const is_sharded : {false, true}) {
    config.sharding = sharding_of(is_sharded);
    CHECK(over_bound(config, system) >= 1);
  }
}

TEST_CASE("no random run is faster than the bound of its passes", "[engine]") {
  RandomRuns random{71};
  for (int i = 0; i < 200; ++i) {
    TrainingConfig const config = random.config(4);
    System const system = random.system();
    CAPTURE(i);
    CHECK(over_bound(config, system) >= 1);
  }
}

TEST_CASE("recompute in bubbles does not undercut the bound", "[engine]") {
  for (ScheduleKind const kind :
       {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1, ScheduleKind::zb_h2}) {
    TrainingConfig config = with_schedule(modest_run(1, 4), kind, 1);
    config.recompute.front() = {.granularity = RecomputeGranularity::full,
                                .early = EarlyRecompute::bubble};
    CHECK(over_bound(config, invented_system()) >= 1);
  }
}

TEST_CASE("schedules that other passes have are without a bound, and it is said why", "[engine]") {
  TrainingConfig config = with_schedule(modest_run(1, 4), ScheduleKind::dualpipe, 2);
  CHECK(over_bound(config, invented_system()) == 0);
  config = with_schedule(modest_run(1, 4), ScheduleKind::zb_h2, 1);
  config.schedule.step = StepSync::post_validated;
  CHECK(over_bound(config, invented_system()) == 0);
}

}  // namespace stagecraft::schedule_bound_test
