#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libsim/engine/prediction.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/search/candidate_source.hpp"
#include "libsim/search/plan_search.hpp"
#include "libsim/training/routing_check.hpp"
#include "libsim/training/training_config_checks.hpp"
#include "tests/libsim/engine/random_runs.hpp"
#include "tests/libsim/search/small_searches.hpp"
#include "tests/long_tests.hpp"

namespace stagecraft::unit_search_test {
namespace {

/// A search of units on two nodes of four: any machine, with or without a host that is behind.
SearchRequest drawn_search(std::uint32_t seed) {
  RandomRuns runs{seed};
  SearchRequest request = small_search(4 + seed % 3, 8, 8 << seed % 3, 0.02 * (1 + seed % 6));
  request.base.model.attention = Attention::flash;
  request.base.model.tied_embeddings = seed % 2 == 0;
  request.base.model.precision = Precision::bf16;
  if (seed % 4 == 1) request.base.model.causal_mask = CausalMask::none;
  if (seed % 5 == 2) {
    LayerConfig wide = request.base.model;
    wide.ffn_hidden = 2048;
    request.base.model.pattern = {{wide, 1}, {request.base.model, 1}};
  }
  if (seed % 3 == 2) {  // which do not divide the choices of a microbatch's 128 tokens
    request.base.model.experts = ExpertsConfig{.count = 3, .per_token = 1, .ffn_hidden = 256};
    request.base.model.pattern.clear();
  }
  request.base.stack.early_stop = seed % 3 == 0;
  Accelerator const small = request.system.accelerator;
  if (seed % 2 == 1) {
    request.system = runs.system();
    request.system.accelerator.memory = small.memory;
    request.system.node.accelerators.value = 4;
  }
  request.system.software.replicas.sync.value = seed % 2 == 0 ? UnitSync::every : UnitSync::last;
  request.filter.sharding = {seed % 3 == 0 ? ShardingKind::fsdp1 : ShardingKind::fsdp2};
  return request;
}

/// The modules whose outputs are discarded, and those with what is recomputed as a whole.
std::vector<std::string> discarded_modules(ModelConfig const& model) {
  if (model.experts) return {"moe_act", "layernorm"};
  return {"layernorm"};
}
std::vector<std::string> most_modules(ModelConfig const& model) {
  if (model.experts) return {"moe", "layernorm"};
  return {"mlp", "layernorm"};
}

/// Every plan with units that the space has, found without the search's code: all replicas share a
/// unit, or as many as a node has and twice, four times ... as many.
std::vector<TrainingConfig> enumerated(SearchRequest const& request) {
  std::vector<TrainingConfig> plans;
  int const node = request.system.node.accelerators.value;
  for (int t = 1; t <= request.gpus; ++t) {
    for (std::int64_t micro = 1; micro <= request.global_batch; ++micro) {
      for (int choice = 0; choice < 4 * t; ++choice) {
        int const which = choice % 4;
        int const sharers = 1 + choice / 4;  // of each expert's weights
        TrainingConfig config = request.base;
        if (sharers > 1 && (!config.model.experts || t % sharers != 0)) continue;
        int const d = request.gpus / t;
        if (request.gpus % t != 0 || request.global_batch % (d * micro) != 0) continue;
        config.parallel.tensor = t;
        config.parallel.data = d;
        config.parallel.sequence = which % 2 == 1;
        config.schedule.kind = ScheduleKind::one_f_one_b;
        config.batch = {.global = request.global_batch, .micro = micro};
        config.parallel.expert_tensor = sharers;
        settle_routing(config);
        config.sharding = {.kind = request.filter.sharding.front(),
                           .sync = request.system.software.replicas.sync.value};
        if (which >= 2) config.sharding.reshard_after_forward.kind = Reshard::Kind::no;
        if (config.parallel.sequence && t == 1) continue;
        std::vector<int> groups{0};
        for (int g = std::max(2, node / t); g < d; g *= 2) {
          if (d % g == 0) groups.push_back(g);
        }
        for (int const group : groups) {
          config.sharding.group = group;
          for (int k = -4; k <= request.base.model.layers; ++k) {
            RecomputePolicy policy;
            if (k < 0) policy.granularity = RecomputeGranularity::selective;
            if (k == -4) policy.granularity = RecomputeGranularity::none;
            if (k == -3) policy.modules = discarded_modules(request.base.model);
            if (k == -2) policy.modules = most_modules(request.base.model);
            if (k >= 0) policy.granularity = RecomputeGranularity::full;
            if (k >= 1) policy.method = RecomputeMethod::block;
            if (k >= 1) policy.layers = k;
            config.recompute = {policy};
            if (problems_of(config).empty()) plans.push_back(config);
          }
        }
      }
    }
  }
  return plans;
}

}  // namespace

TEST_CASE("a plan with units has the memory that was found for it, and at least the time",
          "[search][long]") {
  int seen = 0;
  int tight = 0;
  for (std::uint32_t seed = 0; seed < 12; seed += static_cast<std::uint32_t>(case_step(4))) {
    SearchRequest request = drawn_search(seed);
    request.exhaustive = true;
    CandidateSource source{request};
    for (ShapeChoice const& shape : shape_choices(request)) {
      Candidates const candidates = source.units(shape);
      for (Candidate const& plan : candidates.plans) {
        TrainingConfig const config = config_of(request, candidates, plan);
        Prediction const prediction = predict(as_settled(config), request.system);
        auto const iteration = static_cast<double>(prediction.iteration.count());
        CAPTURE(seed, config.parallel.tensor, config.batch.micro, config.sharding.group,
                static_cast<int>(plan.policy.kind), plan.policy.layers);
        REQUIRE(plan.peak == prediction.stages.front().peak());
        REQUIRE(plan.bound <= iteration);
        ++seen;
        tight += plan.bound > 0.999 * iteration ? 1 : 0;
      }
    }
  }
  CAPTURE(seen, tight);
  REQUIRE(seen > 500);
  REQUIRE(tight > seen / 2);
}

TEST_CASE(
    "what was found of units whose ranks compute different rows is no more than the fullest has",
    "[search]") {
  SearchRequest request = small_uneven_search();
  request.base.model.attention = Attention::flash;
  request.base.model.precision = Precision::bf16;
  request.filter.sharding = {ShardingKind::megatron_fsdp};
  request.filter.tensor = {1};
  request.exhaustive = true;
  CandidateSource source{request};
  int seen = 0;
  int split = 0;
  for (ShapeChoice const& shape : shape_choices(request)) {
    Candidates const candidates = source.units(shape);
    for (Candidate const& plan : candidates.plans) {
      TrainingConfig const config = config_of(request, candidates, plan);
      Prediction const prediction = predict(as_settled(config), request.system);
      CAPTURE(shape.expert, shape.micro, plan.policy.layers);
      REQUIRE(plan.peak <= prediction.stages.front().peak());
      REQUIRE(plan.bound <= static_cast<double>(prediction.iteration.count()));
      // A bound of 0 would pass the lines above.
      REQUIRE(plan.peak > prediction.stages.front().peak() / 2);
      ++seen;
      split += shape.expert > 1 ? 1 : 0;
    }
  }
  REQUIRE(seen > 20);
  REQUIRE(split > 0);
}

TEST_CASE("the answer is the best plan with units of an enumeration, on devices of any size",
          "[search][long]") {
  int compared = 0;
  for (std::uint32_t seed = 20; seed < 25; ++seed) {
    SearchRequest request = drawn_search(seed);
    request.top = 1;
    struct Timed {
      SimTime iteration;
      TrainingConfig config;
    };
    std::vector<Timed> plans;
    for (TrainingConfig const& config : enumerated(request)) {
      plans.push_back({predict(as_settled(config), request.system).iteration, config});
    }
    std::ranges::stable_sort(plans, {}, &Timed::iteration);
    for (int const mebibytes : {20, 30, 45, 70, 200}) {
      request.system.accelerator.memory.value = Bytes{std::int64_t{mebibytes} << 20};
      std::optional<SimTime> best;
      for (Timed const& plan : plans) {
        TrainingPlan const made = make_plan(as_settled(plan.config));
        Simulation simulation = simulate(made, request.system);
        add_reservations(simulation, made, request.system, 1);
        if (!simulation.stages.front().fits) continue;
        best = plan.iteration;
        break;
      }
      SearchResult const result = search_plans(request);
      CAPTURE(seed, mebibytes, plans.size());
      REQUIRE(result.best.empty() == !best.has_value());
      if (!best) continue;
      REQUIRE(result.best.front().simulation.iteration == *best);
      ++compared;
    }
  }
  REQUIRE(compared > 10);
}

TEST_CASE("a stack's kinds of sharding are searched unless the filter names others", "[search]") {
  SearchRequest request = small_search(4, 8, 8, 0.2);
  REQUIRE(searches_whole(request));
  REQUIRE_FALSE(searches_units(request));
  request.system.software.replicas.sharding.value = {ShardingKind::fsdp2};
  REQUIRE_FALSE(searches_whole(request));
  request.filter.sharding = {ShardingKind::none, ShardingKind::fsdp1};
  REQUIRE(searches_whole(request));
  REQUIRE(searches_units(request));
}

TEST_CASE("layers of Megatron-FSDP are not kept after forward", "[search]") {
  SearchRequest request = small_search(4, 8, 8, 0.1);
  request.base.model.attention = Attention::flash;
  request.base.model.precision = Precision::bf16;
  request.filter.sharding = {ShardingKind::megatron_fsdp};
  auto const shardings = unit_shardings(request, {}, {.pipeline = 1, .data = 8});
  REQUIRE_FALSE(shardings.empty());
  for (Sharding const& sharding : shardings) {
    REQUIRE(sharding.reshard_after_forward == Reshard{});
  }
  // megatron_fsdp.py: modules release their parameters after each pass.
  TrainingConfig config = request.base;
  config.parallel.data = 8;
  config.batch.global = 8 * config.batch.micro;
  config.sharding = default_sharding(ShardingKind::megatron_fsdp);
  REQUIRE(problems_of(config).empty());
  config.sharding.reshard_after_forward.kind = Reshard::Kind::no;
  REQUIRE(problems_of(config).size() == 1);
}

TEST_CASE("units are shared by all replicas, by those of a node, and by twice as many",
          "[search]") {
  SearchRequest request = small_search(4, 16, 16, 0.2);
  request.filter.sharding = {ShardingKind::fsdp2};
  auto const groups = [&](int tensor) {
    std::vector<int> all;
    for (Sharding const& sharding :
         unit_shardings(request, {.tensor = tensor}, {.pipeline = 1, .data = 16 / tensor})) {
      if (sharding.reshard_after_forward.kind == Reshard::Kind::no) all.push_back(sharding.group);
    }
    return all;
  };
  REQUIRE(groups(1) == std::vector{0, 4, 8});  // of 16 replicas, four on a node
  REQUIRE(groups(2) == std::vector{0, 2, 4});  // of 8, two on a node
  REQUIRE(groups(4) == std::vector{0, 2});     // of 4, one on a node
  REQUIRE(unit_shardings(request, {}, {.pipeline = 2, .data = 8}).empty());
}

}  // namespace stagecraft::unit_search_test
