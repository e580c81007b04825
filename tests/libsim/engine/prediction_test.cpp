#include "libsim/engine/prediction.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/memory/rank_memory.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/engine/random_runs.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/odd_runs.hpp"
#include "tests/libsim/paper_models.hpp"
#include "tests/libsim/uneven_runs.hpp"

namespace stagecraft::prediction_test {
namespace {

/// What is not the same in both, in words; empty where all is.
std::string difference(TrainingConfig const& config,
                       System const& system,
                       Prediction const& found) {
  Simulation const full = simulate(make_plan(as_settled(config)), system);
  std::string text;
  auto const compare = [&](std::string const& what, auto const& expected, auto const& actual) {
    if (!(expected == actual)) text += what + "; ";
  };
  compare("iteration", full.iteration, found.iteration);
  compare("number of stages", full.stages.size(), found.stages.size());
  for (std::size_t i = 0; i < full.stages.size() && i < found.stages.size(); ++i) {
    std::string const stage = " of stage " + std::to_string(i);
    compare("bytes at peak" + stage, full.stages[i].at_peak, found.stages[i].at_peak);
    compare("activation peak" + stage, full.stages[i].activation_peak,
            found.stages[i].activation_peak);
    compare("chunks in flight" + stage, full.stages[i].in_flight_chunks,
            found.stages[i].in_flight_chunks);
  }
  return text;
}

struct Tally {
  int runs = 0;
  int loops = 0;
  int jumps = 0;
};

/// Compares `runs` random runs of up to so many groups of microbatches.
Tally compare_random_runs(std::uint32_t seed, int runs, int most_groups) {
  RandomRuns random{seed};
  Tally tally;
  for (int i = 0; i < runs; ++i) {
    TrainingConfig const config = random.config(most_groups);
    System const system = random.system();
    Prediction const prediction = predict(as_settled(config), system);
    CAPTURE(seed, i, config.parallel.pipeline, config.parallel.interleave, config.schedule.group,
            static_cast<int>(config.schedule.kind), static_cast<int>(config.schedule.p2p),
            microbatches(config), prediction.loops, prediction.loops_left_out);
    REQUIRE(difference(config, system, prediction).empty());
    ++tally.runs;
    tally.loops += prediction.loops > 1 ? 1 : 0;
    tally.jumps += prediction.loops_left_out > 0 ? 1 : 0;
  }
  return tally;
}

TEST_CASE("a prediction is the simulation to the picosecond and the byte, on 3000 random runs",
          "[engine]") {
  Tally const tally = compare_random_runs(1, 3000, 8);
  // Else the test would say nothing about the steady state.
  REQUIRE(tally.loops > tally.runs / 3);
  REQUIRE(tally.jumps > tally.runs / 5);
}

TEST_CASE("a prediction is the simulation where the steady state is long", "[engine]") {
  Tally const tally = compare_random_runs(2, 200, 80);
  REQUIRE(tally.jumps > tally.runs / 3);
}

TEST_CASE("a prediction is the simulation on runs at the edges of what is legal", "[engine]") {
  for (OddRun const& run : odd_runs()) {
    for (System const& system : {invented_system(), lossy_system()}) {
      CAPTURE(run.name);
      REQUIRE(difference(run.config, system, predict(as_settled(run.config), system)).empty());
    }
  }
}

TEST_CASE("a prediction is the simulation if the fullest rank differs from stage to stage",
          "[engine]") {
  for (OddRun const& run : uneven_runs()) {
    CAPTURE(run.name);
    REQUIRE(difference(run.config, lossy_system(), predict(as_settled(run.config), lossy_system()))
                .empty());
  }
}

TEST_CASE("a stage's memory is that of the rank that holds most, each with its own programs",
          "[engine]") {
  int at_odds = 0;  // stages that hold less than if one rank were the fullest in every layer
  for (OddRun const& run : uneven_runs()) {
    CAPTURE(run.name);
    TrainingPlan const plan = make_plan(as_settled(run.config));
    std::vector<FullestMemory> const found = fullest_memory(plan, 1);
    for (StageId const stage : plan.stages.ids()) {
      std::int64_t most = 0;
      for (int rank = 0; rank < plan.groups.ranks_per_stage(); ++rank) {
        RankPrograms const own{plan, rank};
        most = std::max(most, peak_memory({plan, plan.stages[stage], *own}).at_peak.sum());
      }
      REQUIRE(found[stage.index()].memory.at_peak.sum() == most);
      at_odds += most < peak_memory({plan, plan.stages[stage]}).at_peak.sum() ? 1 : 0;
    }
  }
  REQUIRE(at_odds > 5);
}

TEST_CASE("equal stages repeat from the first time through the loop on", "[engine]") {
  // 1F1B of equal stages at no cost of messages is periodic in one microbatch as soon as it is
  // steady.
  TrainingConfig config = modest_run(1, 4);
  config.batch.global = 2 * 1000;
  config.model.vocabulary = 1;
  Prediction const prediction = predict(as_settled(config), invented_system());
  REQUIRE(prediction.loops == 1000 - (4 + 2) + 1);
  REQUIRE(prediction.loops_left_out > 900);
}

TEST_CASE("a window of stored microbatches is played in full", "[engine]") {
  TrainingConfig config = modest_run(2, 4);
  config.batch.global = 2 * 100;
  config.recompute.front().granularity = RecomputeGranularity::full;
  config.recompute.front().store_microbatches.count = 2;
  Prediction const prediction = predict(as_settled(config), lossy_system());
  REQUIRE(prediction.loops == 1);
  REQUIRE(difference(config, lossy_system(), prediction).empty());
}

}  // namespace
}  // namespace stagecraft::prediction_test
