#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "libsim/search/candidate_source.hpp"
#include "libsim/search/module_policies.hpp"
#include "libsim/search/policy_codes.hpp"
#include "libsim/training/training_config_checks.hpp"
#include "libsim/training/training_config_reader.hpp"
#include "tests/libsim/search/small_searches.hpp"

namespace stagecraft::search_space_test {

TEST_CASE("a search goes through legal runs, each once", "[search]") {
  SearchRequest request = small_searches()[GENERATE(0, 2, 5)];
  request.exhaustive = true;
  CandidateSource source{request};
  std::set<std::string> texts;
  std::size_t plans = 0;
  for (ShapeChoice const& shape : shape_choices(request)) {
    Candidates const candidates = source.of(shape);
    for (Candidate const& plan : candidates.plans) {
      TrainingConfig const config = config_of(request, candidates, plan);
      if (!problems_of(config).empty()) FAIL(problems_of(config).front().found);
      texts.insert(to_json(config).dump());
      ++plans;
    }
  }
  REQUIRE(plans > 1000);
  REQUIRE(texts.size() == plans);
}

TEST_CASE("experts are split over the tensor and data ranks of a stage", "[search]") {
  SearchRequest request = small_expert_search(8, 1, 0);
  request.filter.micro = {1};
  std::set<std::vector<int>> found;
  for (ShapeChoice const& shape : shape_choices(request)) {
    if (!shape.sequence && shape.tensor > 1) FAIL("tensor parallelism of experts needs sequence's");
    for (ScheduleChoice const& choice : schedule_choices(request, shape)) {
      REQUIRE(shape.tensor * choice.data % (shape.expert * shape.expert_tensor) == 0);
      if (choice.kind != ScheduleKind::one_f_one_b) continue;
      found.insert({shape.tensor, shape.expert, shape.expert_tensor, choice.pipeline});
    }
  }
  // By hand: for each t of 1, 2, 4 (the heads), p of 1, 2, 4 (p <= 7), t p <= 8: EP of 1, 2, 4 and
  // ETP that divides t, with EP x ETP dividing 8 / p.
  // p 1: t 1: 3; t 2: 3 + 3; t 4: 3 + 3 + 2. p 2: t 1: 3; t 2: 3 + 2; t 4: 3 + 2 + 1.
  // p 4: t 1: 2; t 2: 2 + 1.
  REQUIRE(found.size() == 17 + 14 + 5);
  request.filter.expert = {4};
  request.filter.expert_tensor = {2};
  for (ShapeChoice const& shape : shape_choices(request)) {
    REQUIRE(shape.expert == 4);
    REQUIRE(shape.expert_tensor == 2);
  }
  REQUIRE(has_plans(request));
  request.filter.expert = {3};
  REQUIRE_FALSE(has_plans(request));
}

TEST_CASE("long sequences are split over ranks, shorter ones if it is asked for", "[search]") {
  SearchRequest request = small_search(6, 8, 8, 1);
  request.base.model.attention = Attention::flash;
  request.base.model.attention_dropout = 0;
  request.filter.micro = {1};
  auto const found = [&] {
    std::set<std::pair<int, int>> sizes;  // tensor, context
    for (ShapeChoice const& shape : shape_choices(request)) {
      for (ScheduleChoice const& choice : schedule_choices(request, shape)) {
        REQUIRE(shape.tensor * shape.context * choice.pipeline * choice.data == 8);
        sizes.insert({shape.tensor, shape.context});
      }
    }
    return sizes;
  };
  std::set<std::pair<int, int>> const whole{{1, 1}, {2, 1}, {4, 1}};
  REQUIRE(found() == whole);
  request.base.model.sequence = 16384;
  std::set<std::pair<int, int>> const split{{1, 1}, {1, 2}, {1, 4}, {1, 8}, {2, 1},
                                            {2, 2}, {2, 4}, {4, 1}, {4, 2}};
  REQUIRE(found() == split);
  request.filter.context = {1};
  REQUIRE(found() == whole);
  request.base.model.sequence = 128;
  request.filter.context = {2};
  REQUIRE(found() == std::set<std::pair<int, int>>{{1, 2}, {2, 2}, {4, 2}});
}

TEST_CASE("schedules with more chunk passes than a run may have are counted", "[search]") {
  // On one accelerator there is one stage with one microbatch per sequence: 2^24 are too many.
  SearchRequest request = small_search(6, 1, 1 << 24, 1);
  REQUIRE(schedule_choices(request, {.micro = 1}).empty());
  REQUIRE(schedule_choices(request, {.micro = 1}).oversized == 1);
  REQUIRE(schedule_choices(request, {.micro = 2}).size() == 1);
  REQUIRE(schedule_choices(request, {.micro = 2}).oversized == 0);
  // One that is illegal for another reason, too, is none of them: 3 ranks cannot share 4 heads.
  REQUIRE(schedule_choices(small_search(6, 3, 1 << 24, 1), {.tensor = 3, .micro = 1}).oversized ==
          0);
}

TEST_CASE("shapes are found for a file that names more microbatches than replicas", "[search]") {
  // Tokens of a microbatch are 128; each of them chooses 2 of 4 experts: a sum of 256 rows.
  SearchRequest request = small_expert_search(2, 1, 0);
  request.filter.micro = {1};
  CountsFile file{.path = "rows.csv", .layers = {}};
  for (int layer = 0; layer < request.base.model.layers; ++layer) {
    for (int microbatch = 0; microbatch < 8; ++microbatch) {
      file.layers.push_back({.layer = layer,
                             .microbatch = BatchMicrobatchId{microbatch},
                             .rows = {100, 76, 50, 30},
                             .line = 2});
    }
  }
  request.base.routing.counts = SharedCounts{file};
  std::vector<ShapeChoice> const shapes = shape_choices(request);
  REQUIRE_FALSE(shapes.empty());
  for (ShapeChoice const& shape : shapes) {
    REQUIRE_FALSE(schedule_choices(request, shape).empty());
  }
  // Of a batch that it does not know, it allows none.
  request.global_batch = 4;
  REQUIRE(shape_choices(request).empty());
}

TEST_CASE("sets of modules have what the model has and its precision allows, the cheap ones first",
          "[search]") {
  using Sets = std::vector<std::vector<std::string>>;
  TrainingConfig config;
  config.model = gpt(4, 256, 4, 256, 1000);
  auto const sets = [&] {
    Sets found;
    for (PolicyCode const& code : module_policies(config)) found.push_back(policy_of(code).modules);
    return found;
  };
  // Megatron-LM, --recompute-modules: layernorm, moe_act and mla_up_proj discard outputs, the
  // others are checkpoints; fused attention needs none of its core.
  REQUIRE(sets() == Sets{{"core_attention", "layernorm"}, {"core_attention", "mlp", "layernorm"}});
  config.model.attention = Attention::flash;
  REQUIRE(sets() == Sets{{"layernorm"}, {"mlp", "layernorm"}});
  LayerConfig const dense = config.model;
  config.model.experts = ExpertsConfig{.count = 4, .per_token = 2, .ffn_hidden = 512};
  REQUIRE(sets() == Sets{{"moe_act", "layernorm"}, {"moe", "layernorm"}});
  config.model.pattern = {{dense, 1}, {config.model, 3}};
  REQUIRE(sets() == Sets{{"moe_act", "layernorm"},
                         {"mlp", "moe_act", "layernorm"},
                         {"mlp", "moe", "layernorm"}});
  // transformer_config.py: "Delayed scaling does not support moe_act and layernorm recompute".
  config.low_precision.recipe = Recipe::delayed;
  REQUIRE(sets() == Sets{{"mlp"}, {"mlp", "moe"}});
}

TEST_CASE("policies count the layers of chunks as long as a model may be", "[search]") {
  std::vector<PolicyCode> const policies = uniform_policies(100'000, {});
  REQUIRE(policies.back() == PolicyCode{RecomputeKind::block, 99'999});
}

TEST_CASE("uneven ends hold no more layers than a stage between them", "[search]") {
  SearchRequest const request = small_search(10, 4, 4, 1);
  // 4 stages of 10 layers: 3 in the middle leave 4 for the ends, 4 leave 2; 5 are too many.
  std::vector<LayerShares> const expected{{1, 3, 3}, {2, 3, 2}, {3, 3, 1},
                                          {0, 4, 2}, {1, 4, 1}, {2, 4, 0}};
  REQUIRE(share_choices(request, {.pipeline = 4}) == expected);
  REQUIRE(share_choices(request, {.pipeline = 1}) == std::vector<LayerShares>{{10, 0, 0}});
}

}  // namespace stagecraft::search_space_test
