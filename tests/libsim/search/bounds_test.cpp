#include <catch2/catch.hpp>

#include "libsim/engine/prediction.hpp"
#include "libsim/engine/store_window.hpp"
#include "libsim/search/candidate_source.hpp"
#include "tests/libsim/engine/random_runs.hpp"
#include "tests/libsim/search/small_searches.hpp"

namespace stagecraft {
namespace {

/// A model of any kind, on a machine of any prices.
SearchRequest drawn_search(std::uint32_t seed) {
  RandomRuns runs{seed};
  TrainingConfig const drawn = runs.config(2);
  SearchRequest request = small_search(6, 4, 8, 0.01 * (1 + seed % 8));
  request.base.model = drawn.model;
  request.base.model.layers = 6;
  if (!drawn.model.pattern.empty()) {
    request.base.model.pattern[0].count = 1;
    request.base.model.pattern[1].count = 2;
  }
  request.base.schedule.p2p = drawn.schedule.p2p;
  request.base.memory.output_deallocation = drawn.memory.output_deallocation;
  request.base.parallel.overlap_gradients = drawn.parallel.overlap_gradients;
  Accelerator const small = request.system.accelerator;
  request.system = runs.system();
  request.system.accelerator.memory = small.memory;
  return request;
}

}  // namespace

TEST_CASE("every plan's bound of time is below its simulation, its memory is the simulation's",
          "[search]") {
  int const which = GENERATE(range(0, 17));
  SearchRequest request = which < 5 ? small_searches()[static_cast<std::size_t>(which)]
                                    : drawn_search(static_cast<std::uint32_t>(which));
  request.exhaustive = true;
  CandidateSource source{request};
  int seen = 0;
  int tight = 0;
  for (ShapeChoice const& shape : shape_choices(request)) {
    Candidates const candidates = source.of(shape);
    for (Candidate const& plan : candidates.plans) {
      TrainingConfig const config =
          resolve_store_windows(config_of(request, candidates, plan), request.system);
      Prediction const prediction = predict(config, request.system);
      std::int64_t peak = 0;
      for (StagePrediction const& stage : prediction.stages) peak = std::max(peak, stage.peak());
      auto const iteration = static_cast<double>(prediction.iteration.count());
      bool const has_window = plan.policy.kind == RecomputeKind::window;
      if (plan.bound > iteration || (has_window ? plan.peak > peak : plan.peak != peak)) {
        CAPTURE(which, plan.bound, iteration, plan.peak, peak, to_seconds(prediction.iteration));
        CAPTURE(config.parallel.tensor, config.parallel.pipeline, config.parallel.interleave,
                static_cast<int>(config.schedule.kind), static_cast<int>(plan.policy.kind));
        FAIL("a bound is broken");
      }
      ++seen;
      tight += plan.bound > 0.9 * iteration ? 1 : 0;
    }
  }
  CAPTURE(which, seen, tight);
  REQUIRE(seen > 1000);
  REQUIRE(tight > seen / 4);  // a bound of 0 would pass the test above
}

}  // namespace stagecraft
