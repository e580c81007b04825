#include <algorithm>
#include <catch2/catch.hpp>

#include "libsim/modules/blocks.hpp"
#include "tests/libsim/model/kept_buffers.hpp"
#include "tests/libsim/paper_models.hpp"

// Closed forms of layers with latents, windows, and other norms.

namespace stagecraft::attention_variants_test {
namespace {

constexpr std::int64_t s = 64, b = 3, h = 768, a = 12;
constexpr std::int64_t sbh = s * b * h;
constexpr std::int64_t as2b = a * s * s * b;

/// A dense layer of DeepSeek-V3, from its config.json.
ModelConfig deepseek_v3(std::int64_t sequence) {
  ModelConfig model = gpt(1, 7168, 128, sequence, 1000);
  model.ffn_hidden = 18432;
  model.activation = Activation::swiglu;
  model.norm = Norm::rmsnorm;
  model.positions = Positions::rotary;
  model.biases = false;
  model.dropout = 0;
  model.attention = Attention::flash;
  model.precision = Precision::bf16;
  model.latent_attention = {
      .query_rank = 1536, .key_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
  model.head_dim = 192;
  return model;
}

std::int64_t flops(BlockProgram const& block) {
  return flops_of(block, [](Op const&) { return true; });
}

std::int64_t kept_without_statistics(BlockShape const& shape, RecomputePolicy const& policy = {}) {
  BlockProgram const layer = build_layers(shape, 1, policy);
  return saved_bytes(layer).count() - statistics_bytes(layer);
}

TEST_CASE("a layer with latents keeps what Megatron-Core keeps", "[model]") {
  // Megatron-Core, multi_latent_attention.py, of DeepSeek-V3 with s 4096, b 1, t 1, in MiB: norm in
  // 56 and out 56, latents of queries 12 + 12 (normed), of keys 4.5 (with the rotary part) + 4, q
  // and k 192 each, v and the context 128 each, log-sum-exp 2; then the MLP's norm in 56 and out
  // 56, 2 x 144 of both branches and 144 of their product.
  constexpr double mib = 1 << 20;
  BlockShape const shape{.model = deepseek_v3(4096), .micro = 1};
  double const attention = 56 + 56 + 12 + 12 + 4.5 + 4 + 192 + 192 + 128 + 128 + 2;
  double const mlp = 56 + 56 + 3 * 144;
  REQUIRE(static_cast<double>(kept_without_statistics(shape)) == (attention + mlp) * mib);
  // Discarded: q, k, v and the normed latents, which the products up from them read.
  double const discarded = static_cast<double>(kept_without_statistics(
      shape, {.granularity = RecomputeGranularity::selective, .modules = {"mla_up_projection"}}));
  REQUIRE(discarded == (attention + mlp - 192 - 192 - 128 - 12 - 4) * mib);
}

TEST_CASE("a layer with latents has the parameters and FLOPs of its closed form",
          "[model][flops]") {
  // DeepSeek-AI 2024, arXiv:2405.04434, section 2.1: h ql + ql a (n + r) + h (kl + r) + kl a (n +
  // v) + a v h elements in products, 187.1 million for V3.
  constexpr std::int64_t weights =
      7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168;
  STATIC_REQUIRE(weights == 187'105'280);
  constexpr std::int64_t mlp = 3 * 7168 * 18432, n = 256;
  ModelConfig const model = deepseek_v3(n);
  std::int64_t elements = 0;
  for (Parameter const& parameter : build_layers({.model = model, .micro = 1}, 1, {}).parameters) {
    elements += published_elements(parameter);
  }
  REQUIRE(elements == weights + mlp + 2 * 7168 + 1536 + 512);
  // 6 FLOPs per token and weight; the core's two products of the causal half forward, five
  // backward.
  std::int64_t const core = n * n * 128 * ((192 + 128) + (3 * 192 + 2 * 128));
  REQUIRE(flops(build_layers({.model = model, .micro = 1}, 1, {})) ==
          6 * n * (weights + mlp) + core);
  // Under sequence parallelism ranks share all the work; else each repeats the products down.
  constexpr std::int64_t down = 7168 * (1536 + 576);
  BlockShape shape{.model = model, .tensor = 4, .sequence_parallel = true, .micro = 1};
  REQUIRE(4 * flops(build_layers(shape, 1, {})) == 6 * n * (weights + mlp) + core);
  shape.sequence_parallel = false;
  REQUIRE(4 * flops(build_layers(shape, 1, {})) == 6 * n * (weights + 3 * down + mlp) + core);
}

TEST_CASE("a window leaves its pairs of the square, without the diagonal's halves",
          "[model][flops]") {
  for (std::int64_t const window : {1, 7, 63, 64, 100, 0}) {
    std::int64_t pairs = 0;
    std::int64_t const seen = window == 0 ? s : std::min(window, s);
    for (std::int64_t i = 0; i < s; ++i) pairs += std::min(i + 1, seen);
    REQUIRE(attended_square(s, window) == 2 * pairs - seen);
  }
  ModelConfig model = gpt(4, h, a, s, 1024);
  model.attention = Attention::flash;
  std::int64_t const core = 12 * s * s * h;  // of a layer, forward and backward, over the square
  std::int64_t const all = model_flops_per_sequence(model);
  REQUIRE(attention_flops_per_sequence(model) == 4 * core);
  model.window = 16;
  // 16 (2 x 64 - 16) of 64 x 64 pairs.
  REQUIRE(attention_flops_per_sequence(model) == 4 * (core / 4096 * 1792));
  REQUIRE(model_flops_per_sequence(model) == all - 4 * (core - core / 4096 * 1792));
  std::int64_t const kernels = flops_of(build_layers({.model = model, .micro = 1}, 1, {}),
                                        [](Op const& op) { return op.module == "core_attention"; });
  REQUIRE(kernels == 7 * s / 64 * 1792 * h);  // seven products over the window's half
}

TEST_CASE("norms behind attention and MLP keep their inputs, 2sbh each", "[model]") {
  ModelConfig model = gpt(1, h, a, s, 1000);
  auto const kept = [&](NormPlaces norms) {
    model.norms = norms;
    return kept_without_statistics(
        {.model = model, .tensor = 4, .sequence_parallel = true, .micro = b});
  };
  std::int64_t const pre = kept(NormPlaces::pre);
  REQUIRE(4 * pre == 34 * sbh + 5 * as2b);
  REQUIRE(4 * (kept(NormPlaces::both) - pre) == 4 * sbh);
  // Without the norms before, their inputs are the products' own: 2 x 2sbh less, 2 x 2sbh more.
  REQUIRE(kept(NormPlaces::post) == pre);
}

TEST_CASE("norms of queries and keys keep 1/rms of each head, and their input", "[model]") {
  ModelConfig model = gpt(1, h, a, s, 1000);
  model.attention = Attention::flash;
  model.positions = Positions::rotary;
  model.kv_heads = 4;
  BlockShape shape{.model = model, .micro = b};
  std::int64_t const without = saved_bytes(build_layers(shape, 1, {})).count();
  shape.model.qk_norm = QkNorm::head;
  // The QKV product is kept for v anyway, rotated queries and keys for the scores.
  REQUIRE(saved_bytes(build_layers(shape, 1, {})).count() == without + 4 * s * b * (a + 4));
  shape.model.qk_norm = QkNorm::full;
  REQUIRE(saved_bytes(build_layers(shape, 1, {})).count() == without + 4 * s * b * 2);
}

TEST_CASE("sinks are one parameter per head, and nothing more is kept for them", "[model]") {
  ModelConfig model = gpt(1, h, a, s, 1000);
  model.attention = Attention::flash;
  BlockShape shape{.model = model, .tensor = 4, .micro = b};
  BlockProgram const plain = build_layers(shape, 1, {});
  shape.model.sinks = true;
  BlockProgram const layer = build_layers(shape, 1, {});
  REQUIRE(saved_bytes(layer) == saved_bytes(plain));
  REQUIRE(layer.parameters.size() == plain.parameters.size() + 1);
  REQUIRE(parameter_count(shape.model) == parameter_count(model) + a);
}

TEST_CASE("biases of experts are those of the router and of each expert's two products",
          "[model]") {
  ModelConfig model = gpt(2, h, a, s, 1000);
  model.activation = Activation::swiglu_clamped;
  model.experts = ExpertsConfig{.count = 8, .per_token = 2, .ffn_hidden = 24};
  BlockShape shape{.model = model, .micro = b};
  std::int64_t const kept = saved_bytes(build_layers(shape, 1, {})).count();
  std::int64_t const plain = parameter_count(model);
  shape.model.experts->biases = true;
  REQUIRE(parameter_count(shape.model) == plain + 2 * (8 + 8 * (2 * 24 + h)));
  REQUIRE(saved_bytes(build_layers(shape, 1, {})).count() == kept);
}

TEST_CASE("caps keep what they cap: 2abs^2 of scores, 2sbv of logits", "[model]") {
  ModelConfig model = gpt(1, h, a, s, 1024);
  BlockShape shape{.model = model, .micro = b};
  std::int64_t const layer = saved_bytes(build_layers(shape, 1, {})).count();
  std::int64_t const head = saved_bytes(build_head(shape, HeadWeight::own)).count();
  shape.model.attention_softcap = 50;
  shape.model.logit_softcap = 30;
  REQUIRE(saved_bytes(build_layers(shape, 1, {})).count() == layer + 2 * as2b);
  REQUIRE(saved_bytes(build_head(shape, HeadWeight::own)).count() == head + 2 * s * b * 1024);
}

}  // namespace
}  // namespace stagecraft::attention_variants_test
