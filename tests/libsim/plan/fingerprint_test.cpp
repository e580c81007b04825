#include "libsim/plan/fingerprint.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft::fingerprint_test {
namespace {

/// Every feature on: each of its settings decides something.
TrainingConfig rich_run() {
  TrainingConfig config;
  config.model = gpt(8, 64, 8, 32, 1000);
  config.parallel = {.tensor = 2, .pipeline = 2, .interleave = 2, .data = 2};
  config.batch = {.global = 16, .micro = 2};
  config.schedule = {.kind = ScheduleKind::interleaved, .group = 2};
  config.recompute.front().granularity = RecomputeGranularity::selective;
  return config;
}

struct Change {
  std::string name;
  std::function<void(TrainingConfig&)> apply;
};

std::vector<Change> changes_of_what_is_computed() {
  using C = TrainingConfig;
  return {
      {"layers", [](C& c) { c.model.layers = 12; }},
      {"hidden", [](C& c) { c.model.hidden = 128; }},
      {"heads", [](C& c) { c.model.heads = c.model.kv_heads = 4; }},
      {"heads and head_dim",
       [](C& c) { c.model.heads = c.model.kv_heads = 4, c.model.head_dim = 16; }},
      {"kv_heads", [](C& c) { c.model.kv_heads = 4; }},
      {"head_dim", [](C& c) { c.model.head_dim = 16; }},
      {"sequence", [](C& c) { c.model.sequence = 64; }},
      {"vocabulary of the same padding", [](C& c) { c.model.vocabulary = 1001; }},
      {"vocabulary_multiple", [](C& c) { c.model.vocabulary_multiple = 100; }},
      {"ffn_hidden", [](C& c) { c.model.ffn_hidden = 128; }},
      {"activation", [](C& c) { c.model.activation = Activation::swiglu; }},
      {"norm", [](C& c) { c.model.norm = Norm::rmsnorm; }},
      {"positions", [](C& c) { c.model.positions = Positions::rotary; }},
      {"tied_embeddings", [](C& c) { c.model.tied_embeddings = false; }},
      {"position_rows", [](C& c) { c.model.position_rows = 64; }},
      {"relu", [](C& c) { c.model.activation = Activation::relu; }},
      {"geglu", [](C& c) { c.model.activation = Activation::geglu; }},
      {"parallel", [](C& c) { c.model.residual = Residual::parallel; }},
      {"parallel_one_norm", [](C& c) { c.model.residual = Residual::parallel_one_norm; }},
      {"attention_dropout", [](C& c) { c.model.attention_dropout = 0.2; }},
      {"no attention_dropout", [](C& c) { c.model.attention_dropout = 0; }},
      {"qkv_bias", [](C& c) { c.model.biases = false, c.model.qkv_bias = true; }},
      {"dropout", [](C& c) { c.model.dropout = 0.2; }},
      {"dropout, by the last bit", [](C& c) { c.model.dropout = std::nextafter(0.1, 1.0); }},
      {"no dropout", [](C& c) { c.model.dropout = 0; }},
      {"biases", [](C& c) { c.model.biases = false; }},
      {"attention", [](C& c) { c.model.attention = Attention::flash; }},
      {"softmax_dropout", [](C& c) { c.model.softmax_dropout = SoftmaxDropout::fused; }},
      {"dropout_mask", [](C& c) { c.model.dropout_mask = DropoutMask::regenerated; }},
      {"causal_mask", [](C& c) { c.model.causal_mask = CausalMask::none; }},
      {"bf16", [](C& c) { c.model.precision = Precision::bf16; }},
      {"fp32", [](C& c) { c.model.precision = Precision::fp32; }},
      {"tf32", [](C& c) { c.model.precision = Precision::fp32, c.tf32 = true; }},
      {"fp64", [](C& c) { c.model.precision = Precision::fp64; }},
      {"tensor", [](C& c) { c.parallel.tensor = 4; }},
      {"pipeline", [](C& c) { c.parallel.pipeline = 4, c.schedule.group = 4; }},
      {"interleave", [](C& c) { c.parallel.interleave = 4; }},
      {"data", [](C& c) { c.parallel.data = 4, c.batch.global = 32; }},
      {"sequence parallelism", [](C& c) { c.parallel.sequence = true; }},
      {"overlap_gradients", [](C& c) { c.parallel.overlap_gradients = true; }},
      {"global batch", [](C& c) { c.batch.global = 32; }},
      {"microbatch", [](C& c) { c.batch.micro = 1; }},
      {"1f1b",
       [](C& c) { c.schedule = {.kind = ScheduleKind::one_f_one_b}, c.parallel.interleave = 1; }},
      {"gpipe",
       [](C& c) { c.schedule = {.kind = ScheduleKind::gpipe}, c.parallel.interleave = 1; }},
      {"group", [](C& c) { c.schedule.group = 4; }},
      {"p2p", [](C& c) { c.schedule.p2p = P2p::overlapped; }},
      {"step", [](C& c) { c.schedule.step = StepSync::post_validated; }},
      {"scatter_gather", [](C& c) { c.schedule.scatter_gather = false; }},
      {"no recompute", [](C& c) { c.recompute.front() = {}; }},
      {"modules", [](C& c) { c.recompute.front().modules = {"mlp"}; }},
      {"full recompute",
       [](C& c) { c.recompute.front().granularity = RecomputeGranularity::full; }},
      {"groups of 2",
       [](C& c) {
         c.recompute.front() = {.granularity = RecomputeGranularity::full, .layers = 2};
       }},
      {"block method",
       [](C& c) {
         c.recompute.front() = {.granularity = RecomputeGranularity::full,
                                .method = RecomputeMethod::block};
       }},
      {"sharded checkpoints",
       [](C& c) {
         c.recompute.front() = {.granularity = RecomputeGranularity::full,
                                .sharded_checkpoints = true};
       }},
      {"window", [](C& c) { c.recompute.front().store_microbatches.count = 1; }},
      {"policy of a stage", [](C& c) { c.recompute.push_back({}); }},
      {"output_deallocation", [](C& c) { c.memory.output_deallocation = false; }},
      {"distributed_optimizer", [](C& c) { c.sharding = sharding_of(true); }},
      {"layout",
       [](C& c) {
         c.layout = {.kind = LayerSplit::Kind::list, .first = {}, .last = {}, .list = {1, 2, 2, 3}};
       }},
  };
}

TEST_CASE("everything that changes what is computed changes the fingerprint", "[plan]") {
  std::map<std::string, std::string> by_fingerprint{
      {fingerprint(make_plan(as_settled(rich_run()))), "base"}};
  for (Change const& change : changes_of_what_is_computed()) {
    TrainingConfig config = rich_run();
    change.apply(config);
    auto const [other, is_new] =
        by_fingerprint.try_emplace(fingerprint(make_plan(as_settled(config))), change.name);
    CAPTURE(change.name, other->second);
    REQUIRE(is_new);
  }
}

TEST_CASE("what one layer does otherwise than the others changes the fingerprint", "[plan]") {
  TrainingPlan plan = make_plan(as_settled(rich_run()));
  std::string const before = fingerprint(plan);
  auto const layer =
      std::find_if(plan.programs.blocks.begin(), plan.programs.blocks.end(),
                   [](auto const& block) { return block.kind == BlockProgram::Kind::layers; });
  REQUIRE(layer != plan.programs.blocks.end());
  for (Op& op : layer->forward) {
    if (op.kind != OpKind::norm) continue;
    std::get<NormAttributes>(op.attributes).epsilon = 1e-6;
    break;
  }
  REQUIRE(fingerprint(plan) != before);
}

TEST_CASE("the reserve, and settings without effect, leave the fingerprint alone", "[plan]") {
  std::string const before = fingerprint(make_plan(as_settled(rich_run())));
  TrainingConfig config = rich_run();
  SECTION("reserve") { config.memory.reserve = Bytes{123}; }
  SECTION("allocator") {
    config.memory.allocator = AllocatorKind::arena;
    config.memory.allocator_settings = "expandable_segments:True";
  }
  SECTION("an even layout written as a list") {
    config.layout = {.kind = LayerSplit::Kind::list, .first = {}, .last = {}, .list = {4, 4}};
  }
  SECTION("a policy for each stage, all alike") {
    config.recompute.push_back(config.recompute.front());
  }
  SECTION("a method that selective recompute does not read") {
    config.recompute.front().method = RecomputeMethod::block;
    config.recompute.front().layers = 7;
  }
  REQUIRE(fingerprint(make_plan(as_settled(config))) == before);
}

TEST_CASE("scatter-gather has no effect with sequence parallelism", "[plan]") {
  TrainingConfig config = rich_run();
  config.parallel.sequence = true;
  std::string const before = fingerprint(make_plan(as_settled(config)));
  config.schedule.scatter_gather = false;
  REQUIRE(fingerprint(make_plan(as_settled(config))) == before);
}

TEST_CASE("a fingerprint is 64 hexadecimal digits and the same every time", "[plan]") {
  std::string const print = fingerprint(make_plan(as_settled(rich_run())));
  REQUIRE(print.size() == 64);
  REQUIRE(print.find_first_not_of("0123456789abcdef") == std::string::npos);
  REQUIRE(fingerprint(make_plan(as_settled(rich_run()))) == print);
}

}  // namespace
}  // namespace stagecraft::fingerprint_test
