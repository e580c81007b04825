#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <set>

#include "libsim/engine/prediction.hpp"
#include "libsim/search/candidate_source.hpp"
#include "libsim/search/plan_search.hpp"
#include "tests/libsim/search/small_searches.hpp"
#include "tests/long_tests.hpp"

namespace stagecraft::ordered_search_test {
namespace {

std::set<ScheduleKind> kinds_of(std::vector<FoundPlan> const& plans) {
  std::set<ScheduleKind> kinds;
  for (FoundPlan const& plan : plans) kinds.insert(plan.config.schedule.kind);
  return kinds;
}

SearchRequest overlapped_search() {
  SearchRequest request = small_searches()[1];
  request.base.memory.allocator = AllocatorKind::arena;  // what fits is then what is counted
  request.filter.pipeline = {2, 4};
  request.filter.micro = {1};
  return request;
}

std::vector<ScheduleKind> rules() {
  return {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved};
}

}  // namespace

TEST_CASE("a plan that follows an order holds what its simulation says and is not below its bound",
          "[search][long]") {
  int const which = GENERATE(range(0, 8, static_cast<int>(case_step(3))));
  SearchRequest request = small_searches()[static_cast<std::size_t>(which)];
  request.filter.micro = {1};
  request.filter.pipeline = {2, 4};
  request.filter.only_even = request.base.model.layers % 4 == 0;
  CandidateSource source{request};
  std::set<ScheduleKind> seen;
  for (ShapeChoice const& shape : shape_choices(request)) {
    Candidates const candidates = source.ordered(shape, CandidateSource::Hopeless::looked_at,
                                                 std::numeric_limits<double>::infinity());
    double const least = source.least_time(shape, BackwardPasses::split);
    for (Candidate const& plan : candidates.plans) {
      TrainingConfig const config = config_of(request, candidates, plan);
      Prediction const prediction = predict(as_settled(config), request.system);
      std::int64_t peak = 0;
      for (StagePrediction const& stage : prediction.stages) peak = std::max(peak, stage.peak());
      auto const iteration = static_cast<double>(prediction.iteration.count());
      seen.insert(config.schedule.kind);
      if (plan.bound <= iteration && least <= iteration && plan.peak == peak) continue;
      CAPTURE(which, name_of(config.schedule.kind), config.parallel.tensor,
              config.parallel.pipeline, config.parallel.interleave, plan.policy.kind,
              plan.policy.layers, plan.bound, least, iteration, plan.peak, peak);
      FAIL("a bound is broken");
    }
  }
  REQUIRE_FALSE(seen.empty());
}

TEST_CASE("schedules that follow an order are searched, and only make the answer better",
          "[search]") {
  SearchRequest request = overlapped_search();
  request.filter.schedule = rules();
  SearchResult const plain = search_plans(request);
  request.filter.schedule.clear();
  SearchResult const all = search_plans(request);
  REQUIRE(plain.tried == 0);
  REQUIRE(all.tried > 0);
  REQUIRE(all.considered == plain.considered + all.tried);
  REQUIRE(all.considered == all.simulated + all.dismissed_by_memory + all.dismissed_by_bound);
  REQUIRE(all.best.size() == plain.best.size());
  for (std::size_t i = 0; i < all.best.size(); ++i) {
    REQUIRE(all.best[i].simulation.iteration <= plain.best[i].simulation.iteration);
  }
  REQUIRE(all.best.front().simulation.iteration < plain.best.front().simulation.iteration);
  for (FoundPlan const& plan : all.best) {
    REQUIRE(predict(as_settled(plan.config), request.system).iteration ==
            plan.simulation.iteration);
  }
}

TEST_CASE("with only such schedules named, the answer has no other", "[search]") {
  SearchRequest request = overlapped_search();
  request.filter.schedule = {ScheduleKind::zb_h1, ScheduleKind::dualpipev};
  SearchResult const result = search_plans(request);
  REQUIRE(!result.best.empty());
  for (ScheduleKind const kind : kinds_of(result.best)) {
    REQUIRE((kind == ScheduleKind::zb_h1 || kind == ScheduleKind::dualpipev));
  }
  request.jobs = 3;
  SearchResult const again = search_plans(request);
  REQUIRE(again.best.front().config == result.best.front().config);
  REQUIRE(again.simulated == result.simulated);
}

TEST_CASE("schedules that depend on costs are not searched", "[search]") {
  for (ScheduleKind const kind :
       {ScheduleKind::zb_auto, ScheduleKind::v_auto, ScheduleKind::searched, ScheduleKind::order,
        ScheduleKind::group_interleaved}) {
    REQUIRE_FALSE(is_searched(kind));
  }
  REQUIRE(is_searched(ScheduleKind::one_f_one_b));
  REQUIRE(is_searched(ScheduleKind::zb_h1));
  REQUIRE(is_searched(ScheduleKind::one_f_one_b_v));
  REQUIRE(is_searched(ScheduleKind::dualpipe));
}

TEST_CASE("the best plan of those that can be launched is found beside the best of all",
          "[search]") {
  SearchRequest request = overlapped_search();
  auto const is_plain = [](TrainingConfig const& config) {
    return config.schedule.kind == ScheduleKind::one_f_one_b && config.recompute.size() == 1;
  };
  request.is_launchable = is_plain;
  SearchResult const all = search_plans(request);
  REQUIRE(all.best_launchable);
  REQUIRE(is_plain(all.best_launchable->config));
  request.is_launchable = {};
  request.is_wanted = is_plain;
  SearchResult const plain = search_plans(request);
  REQUIRE(all.best_launchable->simulation.iteration == plain.best.front().simulation.iteration);
}

}  // namespace stagecraft::ordered_search_test
