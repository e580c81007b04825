#include <catch2/catch.hpp>

#include "libsim/modules/blocks.hpp"
#include "libsim/run/config_files.hpp"

namespace stagecraft::token_prediction_test {
namespace {

/// A model of the Llama kind in bf16: 4 layers, h 64, a 4, f 96, s 32.
BlockShape shape_of(std::int64_t modules) {
  BlockShape shape;
  ModelConfig& model = shape.model;
  model.layers = 4;
  model.hidden = 64;
  model.heads = model.kv_heads = 4;
  model.head_dim = 16;
  model.sequence = 32;
  model.vocabulary = 100;
  model.vocabulary_multiple = 1;
  model.ffn_hidden = 96;
  model.norm = Norm::rmsnorm;
  model.activation = Activation::swiglu;
  model.positions = Positions::rotary;
  model.biases = false;
  model.tied_embeddings = false;
  model.dropout = 0;
  model.attention = Attention::flash;
  model.precision = Precision::bf16;
  model.predicted_tokens = modules;
  shape.micro = 2;
  return shape;
}

std::int64_t kept(std::int64_t modules, RecomputePolicy const& policy) {
  return saved_bytes(build_head(shape_of(modules), HeadWeight::own, policy)).count();
}

TEST_CASE("a module of multi-token prediction keeps its layer, its projection and its logits",
          "[model]") {
  std::int64_t const sb = 32 * 2;
  std::int64_t const sbh = sb * 64;
  // Tokens and labels; softmax of the logits in fp32; inputs of the embedding's norm, the final
  // norm and the output projection; the final norm's statistics.
  std::int64_t const ends = 2 * 8 * sb + 4 * sb * 100 + 3 * 2 * sbh + 4 * sb;
  // Statistics of the norms of embedding and hidden state, and the projection's input.
  std::int64_t const projection = 2 * 4 * sb + 2 * 2 * sbh;
  std::int64_t const layer = saved_bytes(build_layers(shape_of(0), 1, {})).count();
  for (std::int64_t const modules : {1, 3}) {
    REQUIRE(kept(modules, {}) == kept(0, {}) + modules * (ends + projection + layer));
    // Megatron-Core's checkpoint of a module ends behind its final norm: PyTorch was seen to keep
    // neither that norm's input nor its statistics (experiments/torch_twins).
    RecomputePolicy const full{.granularity = RecomputeGranularity::full};
    REQUIRE(kept(modules, full) == kept(0, {}) + modules * (ends - 2 * sbh - 4 * sb));
  }
}

/// Megatron-LM, training.py: one layer, 2 h^2 of the projection and h V of the output projection
/// per token and module, six times each; the core over the full square.
TEST_CASE("DeepSeek-V3's module of multi-token prediction has the FLOPs of Megatron's formula",
          "[model]") {
  ModelConfig model = load_model_file(STAGECRAFT_SOURCE_DIR "/configs/models/deepseek-v3.yaml");
  std::int64_t const without = model_flops_per_sequence(model);
  model.predicted_tokens = 1;
  std::int64_t const h = 7168;
  std::int64_t const latents = 1536 * (h + 128 * 192) + 512 * (h + 128 * 256) + h * 64;
  std::int64_t const attention = latents + 128 * 128 * h;
  std::int64_t const experts = 3 * h * 2048 * (8 + 1);
  std::int64_t const core = 128 * (192 + 128) * model.sequence;
  std::int64_t const module = 6 * (attention + experts + core + 2 * h * h + h * 129'280);
  REQUIRE(model_flops_per_sequence(model) - without == model.sequence * module);
  // Without h V and the core: 11.61 billion parameters, of which 8 + 1 of 256 + 1 experts are used.
  REQUIRE(static_cast<double>(attention + experts + 2 * h * h) / 1e9 ==
          Approx(0.686).margin(0.001));
}

TEST_CASE("modules of multi-token prediction are counted without the copies that they use",
          "[model]") {
  // q, k, v, projection; gate, up, down; 2 norms; the projection of 2h; 3 norms.
  std::int64_t const h = 64;
  std::int64_t const module = 4 * h * h + 3 * h * 96 + 2 * h + 2 * h * h + 3 * h;
  REQUIRE(parameter_count(shape_of(2).model) == parameter_count(shape_of(0).model) + 2 * module);
}

}  // namespace
}  // namespace stagecraft::token_prediction_test
