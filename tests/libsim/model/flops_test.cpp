#include <catch2/catch.hpp>

#include "libsim/modules/blocks.hpp"
#include "tests/libsim/paper_models.hpp"

// Korthikanti et al. 2022, appendix A: forward of a layer 24Bsh^2 + 4Bs^2h, head 2Bshv, backward
// twice.

namespace stagecraft::flops_test {
namespace {

constexpr std::int64_t s = 128, b = 2, h = 512, a = 8;
constexpr std::int64_t forward = 24 * b * s * h * h + 4 * b * s * s * h;

std::int64_t flops(BlockProgram const& block) {
  return flops_of(block, [](Op const&) { return true; });
}
std::int64_t flops(BlockProgram const& block, Phase phase) {
  return flops_of(block, [phase](Op const& op) { return op.phase == phase; });
}

BlockShape shape_on(int tensor, bool sequence) {
  return {
      .model = gpt(1, h, a, s, 1024), .tensor = tensor, .sequence_parallel = sequence, .micro = b};
}

TEST_CASE("equation 7 comes out of the programs, to the last FLOP", "[model][flops]") {
  // 72BLsh^2 (1 + s/(6h) + v/(12hL)) = 72BLsh^2 + 12BLs^2h + 6Bshv, for one sequence.
  for (Table3Row const& row : table3_rows) {
    CAPTURE(row.name);
    std::int64_t const L = row.layers, H = row.hidden, S = 2048, v = 51200;
    REQUIRE(model_flops_per_sequence(model_of(row)) ==
            72 * L * S * H * H + 12 * L * S * S * H + 6 * S * H * v);
  }
}

TEST_CASE("backward is twice forward, half of the linear layers' for weights", "[model][flops]") {
  BlockProgram const layer = build_layers(shape_on(1, false), 1, {});
  REQUIRE(flops(layer, Phase::forward) == forward);
  REQUIRE(flops(layer, Phase::weight_gradient) == 24 * b * s * h * h);
  REQUIRE(flops(layer, Phase::input_gradient) == 24 * b * s * h * h + 8 * b * s * s * h);
  REQUIRE(flops(layer, Phase::recompute) == 0);
}

TEST_CASE("t ranks do the work of one, with or without sequence parallelism", "[model][flops]") {
  int const t = GENERATE(2, 4, 8);
  bool const sequence = GENERATE(false, true);
  REQUIRE(t * flops(build_layers(shape_on(t, sequence), 1, {})) == 3 * forward);
  REQUIRE(t * flops(build_head(shape_on(t, sequence), HeadWeight::own)) == 6 * b * s * h * 1024);
  REQUIRE(flops(build_embedding(shape_on(t, sequence))) == 0);
}

TEST_CASE("selective recompute repeats the two attention products: 4Bs^2h a layer",
          "[model][flops]") {
  BlockProgram const layer =
      build_layers(shape_on(2, true), 3, {.granularity = RecomputeGranularity::selective});
  REQUIRE(2 * flops(layer, Phase::recompute) == 3 * 4 * b * s * s * h);
}

TEST_CASE("full recompute repeats one forward of every layer", "[model][flops]") {
  int const layers = GENERATE(1, 4);
  bool const sharded = GENERATE(false, true);
  RecomputePolicy const policy{
      .granularity = RecomputeGranularity::full, .layers = layers, .sharded_checkpoints = sharded};
  BlockProgram const group = build_layers(shape_on(2, false), layers, policy);
  REQUIRE(2 * flops(group, Phase::recompute) == layers * forward);
  REQUIRE(2 * flops(group) == 4 * layers * forward);
}

TEST_CASE("recomputing the MLP repeats both its products, recomputing norms none",
          "[model][flops]") {
  RecomputePolicy policy{.granularity = RecomputeGranularity::selective, .modules = {"mlp"}};
  REQUIRE(flops(build_layers(shape_on(1, false), 1, policy), Phase::recompute) ==
          16 * b * s * h * h);
  policy.modules = {"layernorm"};
  REQUIRE(flops(build_layers(shape_on(1, false), 1, policy), Phase::recompute) == 0);
  policy.modules = {"core_attention", "mlp", "layernorm"};
  REQUIRE(flops(build_layers(shape_on(1, false), 1, policy), Phase::recompute) ==
          16 * b * s * h * h + 4 * b * s * s * h);
}

TEST_CASE("causal flash attention does half of the square forward and 2.5 times that backward",
          "[model][flops]") {
  // Two of the unfused square's GEMMs forward, five backward (the scores again among them), half of
  // the square each: Dao 2023, arXiv:2307.08691, section 3.1.
  BlockShape shape = shape_on(1, false);
  shape.model.attention = Attention::flash;
  BlockProgram const layer = build_layers(shape, 1, {});
  REQUIRE(flops(layer, Phase::forward) == 24 * b * s * h * h + 2 * b * s * s * h);
  REQUIRE(flops(layer, Phase::input_gradient) == 24 * b * s * h * h + 5 * b * s * s * h);
}

TEST_CASE("model FLOPs count the full square for flash attention too", "[model][flops]") {
  ModelConfig model = gpt(3, h, a, s, 1000);
  std::int64_t const unfused = model_flops_per_sequence(model);
  model.attention = Attention::flash;
  REQUIRE(model_flops_per_sequence(model) == unfused);
}

TEST_CASE("padding rows of the vocabulary are worked on but are no model FLOPs", "[model][flops]") {
  // 1000 padded to a multiple of 128 t = 1024 at t = 8.
  ModelConfig model = gpt(0, h, a, s, 1000);
  REQUIRE(model_flops_per_sequence(model) == 6 * s * h * 1000);
  BlockShape const shape{.model = model, .tensor = 8};
  REQUIRE(8 * flops(build_head(shape, HeadWeight::own)) == 6 * s * h * 1024);
}

TEST_CASE("grouped queries and SwiGLU cost what their shapes say", "[model][flops]") {
  // 2Bs [h d(a + 2g) + a d h + 3hf] + 4Bs^2 a d, forward (Llama-type layers).
  BlockShape shape = shape_on(2, true);
  shape.model.kv_heads = 2;
  shape.model.activation = Activation::swiglu;
  shape.model.ffn_hidden = 1408;
  std::int64_t const d = h / a;
  std::int64_t const expected =
      2 * b * s * (h * d * (a + 2 * 2) + a * d * h + 3 * h * 1408) + 4 * b * s * s * a * d;
  REQUIRE(2 * flops(build_layers(shape, 1, {}), Phase::forward) == expected);
}

TEST_CASE("a kv head replicated onto two ranks is projected twice", "[model][flops]") {
  // 2 groups on 4 ranks: k and v are 4 heads wide in sum, not 2.
  BlockShape shape = shape_on(4, false);
  shape.model.kv_heads = 2;
  std::int64_t const d = h / a;
  std::int64_t const once = forward - 2 * b * s * h * (2 * h - 2 * 2 * d);
  REQUIRE(4 * flops(build_layers(shape, 1, {}), Phase::forward) ==
          once + 2 * b * s * h * 2 * 2 * d);
}

}  // namespace
}  // namespace stagecraft::flops_test
