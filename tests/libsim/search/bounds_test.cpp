#include <catch2/catch.hpp>

#include "libsim/engine/prediction.hpp"
#include "libsim/engine/store_window.hpp"
#include "libsim/search/candidate_source.hpp"
#include "tests/libsim/search/small_searches.hpp"

namespace stagecraft {

TEST_CASE("every plan's bound of time is below its simulation, its memory is the simulation's",
          "[search]") {
  std::size_t const which = GENERATE(0, 1, 2, 3);
  SearchRequest request = small_searches()[which];
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
  REQUIRE(tight > seen / 2);  // a bound of 0 would pass the test above
}

}  // namespace stagecraft
