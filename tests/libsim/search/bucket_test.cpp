#include <catch2/catch.hpp>

#include "libsim/engine/prediction.hpp"
#include "libsim/search/candidate_source.hpp"
#include "libsim/search/plan_search.hpp"
#include "tests/libsim/search/small_searches.hpp"

namespace stagecraft::bucket_test {
namespace {

/// Stages of more than 40 million elements, of which Megatron-LM makes several gradient buckets
/// (megatron/core/distributed/distributed_data_parallel.py), which the optimizer's shards pad.
SearchRequest bucket_search(std::int64_t layers, int replicas) {
  SearchRequest request = small_search(layers, 2 * replicas, 2 * replicas, 80);
  request.base.model = gpt(layers, 2048, 16, 128, 32003);
  request.base.parallel.overlap_gradients = true;
  request.system.accelerator.name = "bucket";
  request.filter.tensor = {1};
  request.filter.pipeline = {2};
  request.filter.recompute = {RecomputeKind::none, RecomputeKind::selective};
  request.filter.only_even = true;
  request.filter.micro = {1};
  return request;
}

}  // namespace

TEST_CASE("a plan's memory is its simulation's where buckets are split and padded by chunk",
          "[search]") {
  auto const [layers, replicas] = GENERATE(table<std::int64_t, int>({{8, 5}, {16, 5}, {24, 13}}));
  SearchRequest request = bucket_search(layers, replicas);
  request.exhaustive = true;
  CandidateSource source{request};
  int seen = 0;
  for (ShapeChoice const& shape : shape_choices(request)) {
    Candidates const candidates = source.of(shape);
    for (Candidate const& plan : candidates.plans) {
      TrainingConfig const config = config_of(request, candidates, plan);
      Prediction const prediction = predict(as_settled(config), request.system);
      std::int64_t peak = 0;
      for (StagePrediction const& stage : prediction.stages) peak = std::max(peak, stage.peak());
      CAPTURE(config.parallel.interleave, config.sharding.shares_optimizer());
      REQUIRE(plan.peak == peak);
      REQUIRE(plan.bound <= static_cast<double>(prediction.iteration.count()));
      ++seen;
    }
  }
  REQUIRE(seen > 10);
}

TEST_CASE("a plan that fits to the byte is found without --exhaustive", "[search]") {
  // The audit's example: chunks pad the optimizer's shards differently from whole stages.
  SearchRequest request = bucket_search(8, 5);
  request.filter.interleave = {2};
  request.filter.sharding = {ShardingKind::distributed_optimizer};
  request.filter.recompute = {RecomputeKind::none};
  request.base.memory.allocator = AllocatorKind::arena;  // reserves no more than is counted
  SearchResult const roomy = search_plans(request);
  REQUIRE(!roomy.best.empty());
  request.system.accelerator.memory.value = Bytes{roomy.best.front().peak()};
  SearchResult const quick = search_plans(request);
  request.exhaustive = true;
  SearchResult const whole = search_plans(request);
  REQUIRE(quick.best.size() == whole.best.size());
  REQUIRE(quick.best.size() >= 1);
  REQUIRE(quick.considered == whole.considered);
}

}  // namespace stagecraft::bucket_test
