#include "libsim/search/plan_search.hpp"

#include <catch2/catch.hpp>
#include <utility>

#include "libsim/engine/prediction.hpp"
#include "libsim/training/training_config_reader.hpp"
#include "tests/libsim/search/small_searches.hpp"

namespace stagecraft::plan_search_test {
namespace {

std::vector<std::string> texts(std::vector<FoundPlan> const& plans) {
  std::vector<std::string> all;
  for (FoundPlan const& plan : plans) {
    all.push_back(std::to_string(plan.simulation.iteration.count()) + " " +
                  std::to_string(plan.peak()) + " " + to_json(plan.config).dump());
  }
  return all;
}

}  // namespace

TEST_CASE("bounds dismiss nothing of the answer that an exhaustive search gives",
          "[search][long]") {
  SearchRequest request = small_searches()[GENERATE(0, 1, 2, 3, 4, 5, 6)];
  SearchResult const quick = search_plans(request);
  request.exhaustive = true;
  SearchResult const whole = search_plans(request);
  REQUIRE(whole.best.size() == 10);
  REQUIRE(texts(quick.best) == texts(whole.best));
  REQUIRE(texts(quick.front) == texts(whole.front));
  REQUIRE(quick.simulated < whole.simulated);
  REQUIRE(quick.considered ==
          quick.simulated + quick.dismissed_by_memory + quick.dismissed_by_bound);
  // Only windows that can store nothing are not simulated.
  REQUIRE(whole.considered == whole.simulated + whole.dismissed_by_memory);
  REQUIRE(whole.dismissed_by_bound == 0);
  REQUIRE(whole.unexamined == 0);
  // Only of models with experts are schedules left out whole.
  bool const is_whole = quick.unexamined == 0;
  REQUIRE(is_whole >= !has_experts(request.base.model));
  REQUIRE((is_whole ? quick.considered == whole.considered : quick.considered < whole.considered));
}

TEST_CASE("bounds dismiss nothing of the answer if the rows of ranks and layers come from a file",
          "[search][long]") {
  SearchRequest request = small_uneven_search();
  SearchResult const quick = search_plans(request);
  request.exhaustive = true;
  SearchResult const whole = search_plans(request);
  REQUIRE(whole.best.size() == 10);
  REQUIRE(texts(quick.best) == texts(whole.best));
  REQUIRE(texts(quick.front) == texts(whole.front));
  REQUIRE(quick.simulated < whole.simulated);
  for (FoundPlan const& plan : quick.best) {
    REQUIRE(plan.peak() <= request.system.accelerator.memory.value.count());
  }
}

TEST_CASE("a margin is kept free as a larger reserve is, and is not part of the plans",
          "[search]") {
  SearchRequest request = small_searches()[0];
  request.base.memory.allocator = AllocatorKind::arena;  // which reserves what is counted
  SearchResult const full = search_plans(request);
  std::int64_t const device = request.system.accelerator.memory.value.count();
  request.margin = device - full.best.front().peak() + 1;  // the best does not leave it
  SearchResult const careful = search_plans(request);
  REQUIRE(!careful.best.empty());
  for (FoundPlan const& plan : careful.best) {
    REQUIRE(plan.peak() + request.margin <= device);
    REQUIRE(plan.config.memory.reserve == request.base.memory.reserve);
  }
  request.base.memory.reserve = Bytes{std::exchange(request.margin, 0)};
  SearchResult const reserved = search_plans(request);
  REQUIRE(reserved.considered == careful.considered);
  REQUIRE(reserved.best.front().simulation.iteration == careful.best.front().simulation.iteration);
}

TEST_CASE("the number of threads changes neither plans nor counts", "[search]") {
  SearchRequest request = small_searches()[1];
  SearchResult const one = search_plans(request);
  request.jobs = 3;
  SearchResult const three = search_plans(request);
  REQUIRE(texts(one.best) == texts(three.best));
  REQUIRE(texts(one.front) == texts(three.front));
  REQUIRE(one.considered == three.considered);
  REQUIRE(one.simulated == three.simulated);
}

TEST_CASE("per stage, no policy that recomputes less fits", "[search]") {
  SearchRequest request = small_search(8, 4, 16, 0.035);
  request.base.memory.allocator = AllocatorKind::arena;  // which reserves what is counted
  request.filter.recompute = {RecomputeKind::per_stage};
  request.filter.pipeline = {4};
  request.filter.interleave = {1};
  request.top = 3;
  std::int64_t const capacity = request.system.accelerator.memory.value.count();
  SearchResult const result = search_plans(request);
  REQUIRE_FALSE(result.best.empty());
  for (FoundPlan const& plan : result.best) {
    REQUIRE(plan.config.recompute.size() == 4);
    for (std::size_t stage = 0; stage < 4; ++stage) {
      if (plan.config.recompute[stage].granularity == RecomputeGranularity::none) continue;
      TrainingConfig none = plan.config;
      none.recompute[stage] = RecomputePolicy{};
      REQUIRE(predict(as_settled(none), request.system).stages[stage].peak() > capacity);
    }
  }
}

TEST_CASE("where nothing fits, the result says what came closest", "[search]") {
  SearchResult const result = search_plans(small_search(6, 4, 8, 0.001));
  REQUIRE(result.best.empty());
  REQUIRE(result.closest);
  REQUIRE(result.closest->excess > 0);
  REQUIRE(result.considered == result.dismissed_by_memory);
}

}  // namespace stagecraft::plan_search_test
