#include "libsim/search/ordered_plans.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "libsim/engine/prediction.hpp"
#include "libsim/search/plan_search.hpp"
#include "tests/libsim/search/small_searches.hpp"

namespace stagecraft::ordered_plans_test {
namespace {

std::set<ScheduleKind> kinds_of(std::vector<FoundPlan> const& plans) {
  std::set<ScheduleKind> kinds;
  for (FoundPlan const& plan : plans) kinds.insert(plan.config.schedule.kind);
  return kinds;
}

SearchRequest overlapped_search() {
  SearchRequest request = small_searches()[1];
  request.base.schedule.p2p = P2p::overlapped;
  request.base.memory.allocator = AllocatorKind::arena;  // what fits is then what is counted
  request.filter.pipeline = {2, 4};
  return request;
}

}  // namespace

TEST_CASE("schedules that follow an order are tried on the best layouts", "[search]") {
  SearchRequest request = overlapped_search();
  SearchResult const plain = search_plans(request);
  request.filter.schedule = {ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                             ScheduleKind::interleaved};
  request.filter.ordered = {ScheduleKind::zb_h1, ScheduleKind::zbv, ScheduleKind::v_half,
                            ScheduleKind::interleaved_zb};
  SearchResult const all = search_plans(request);
  REQUIRE(all.tried > 0);
  REQUIRE(all.considered == plain.considered + all.tried);
  REQUIRE(all.considered == all.simulated + all.dismissed_by_memory + all.dismissed_by_bound);
  REQUIRE(all.best.size() == plain.best.size());
  // What was tried can only make the answer better, stage by stage.
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
  request.filter.ordered = {ScheduleKind::zb_h1, ScheduleKind::dualpipev};
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

TEST_CASE("schedules that depend on costs are not tried", "[search]") {
  for (ScheduleKind const kind :
       {ScheduleKind::zb_auto, ScheduleKind::v_auto, ScheduleKind::searched, ScheduleKind::order,
        ScheduleKind::group_interleaved, ScheduleKind::one_f_one_b}) {
    REQUIRE_FALSE(is_tried(kind));
  }
  REQUIRE(is_tried(ScheduleKind::zb_h1));
  REQUIRE(is_tried(ScheduleKind::one_f_one_b_v));
  REQUIRE(is_tried(ScheduleKind::dualpipe));
}

}  // namespace stagecraft::ordered_plans_test
