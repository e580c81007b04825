#include "libsim/search/plan_search.hpp"

#include <catch2/catch.hpp>

#include "libsim/engine/prediction.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/search/device_room.hpp"
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
  request.filter.schedule = {ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                             ScheduleKind::interleaved};
  request.filter.p2p = {request.base.schedule.p2p};
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

TEST_CASE("bounds dismiss nothing of the answer among schedules that follow an order",
          "[search][long]") {
  SearchRequest request = small_searches()[GENERATE(1, 6)];
  request.filter.micro = {1};
  request.filter.pipeline = {2, 4};
  request.filter.tensor = {1};
  SearchResult const quick = search_plans(request);
  request.exhaustive = true;
  SearchResult const whole = search_plans(request);
  REQUIRE(texts(quick.best) == texts(whole.best));
  REQUIRE(quick.simulated < whole.simulated);
  REQUIRE(whole.tried > 0);
  REQUIRE(quick.considered ==
          quick.simulated + quick.dismissed_by_memory + quick.dismissed_by_bound);
}

TEST_CASE("bounds dismiss nothing of the answer if the rows of ranks and layers come from a file",
          "[search][long]") {
  SearchRequest request = small_uneven_search();
  request.filter.schedule = {ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                             ScheduleKind::interleaved};
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

TEST_CASE("a margin is left on the device by what the allocator reserves there", "[search]") {
  for (AllocatorKind const allocator : {AllocatorKind::pytorch, AllocatorKind::arena}) {
    SearchRequest request = small_searches()[0];
    request.base.memory.allocator = allocator;
    SearchResult const full = search_plans(request);
    // The best of all leaves one byte less.
    request.margin = least_margin(full.best.front().simulation).count() + 1;
    SearchResult const careful = search_plans(request);
    REQUIRE(!careful.best.empty());
    REQUIRE(careful.best.front().simulation.iteration >= full.best.front().simulation.iteration);
    for (FoundPlan const& plan : careful.best) {
      TrainingPlan const made = make_plan(as_settled(plan.config));
      Simulation again = simulate(made, request.system);
      add_reservations(again, made, request.system, 1);
      for (StageResult const& stage : again.stages) REQUIRE(stage.margin >= request.margin);
      REQUIRE(plan.config.memory.reserve == request.base.memory.reserve);
    }
  }
}

TEST_CASE(
    "experts whose number does not divide the choices are planned, each layout with even counts",
    "[search]") {
  SearchRequest request = small_expert_search(4, 0.2, 0);
  request.base.model.experts->count = 6;  // 128 tokens of a sequence make 256 choices
  SearchResult const result = search_plans(request);
  REQUIRE(!result.best.empty());
  for (FoundPlan const& plan : result.best) {
    REQUIRE(plan.config.routing.factor == 1);
    REQUIRE(simulate(make_plan(as_settled(plan.config)), request.system).iteration ==
            plan.simulation.iteration);
  }
}

TEST_CASE("stages take the policy that their allocator accepts, not the one that is counted",
          "[search]") {
  // 12 layers of width 2048 on 4 stages, 8 chunks: by counted bytes more stages need no recompute
  // than the allocator's fragments leave room for. With policies [selective, selective, none, none]
  // `simulate` fits (review of 2026).
  SearchRequest request = small_search(12, 4, 16, 9);
  request.base.model = gpt(12, 2048, 16, 2048, 51200);
  request.base.model.tied_embeddings = false;
  request.filter.tensor = {1};
  request.filter.pipeline = {4};
  request.filter.micro = {1};
  request.filter.schedule = {ScheduleKind::one_f_one_b};
  request.filter.only_even = true;
  request.top = 1;
  for (int step = 0; step < 12; ++step) {
    request.system.accelerator.memory.value = Bytes{(std::int64_t{8} << 30) + step * (96 << 20)};
    SearchResult const result = search_plans(request);
    CAPTURE(step);
    if (result.best.empty()) continue;
    TrainingConfig const& best = result.best.front().config;
    // No stage can do with a policy that takes less time.
    std::vector<RecomputePolicy> policies = best.recompute;
    if (policies.size() == 1) policies.resize(4, policies.front());
    for (std::size_t stage = 0; stage < 4; ++stage) {
      if (policies[stage].granularity != RecomputeGranularity::selective) continue;
      TrainingConfig other = best;
      other.recompute = policies;
      other.recompute[stage] = {};
      TrainingPlan const made = make_plan(as_settled(other));
      Simulation simulation = simulate(made, request.system);
      add_reservations(simulation, made, request.system, 1);
      REQUIRE_FALSE(simulation.stages[stage].fits);
    }
  }
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
