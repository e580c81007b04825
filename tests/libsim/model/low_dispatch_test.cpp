#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "libsim/modules/blocks.hpp"
#include "tests/libsim/model/kept_buffers.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft::low_dispatch_test {
namespace {

constexpr std::int64_t h = 256;
constexpr std::int64_t tokens = 112;
constexpr std::int64_t rows = 2 * tokens;  // of 2 experts of the rank, 112 each
/// A scale of 4 bytes for each 128 elements of a row.
constexpr std::int64_t row = h + h / 128 * 4;

/// A layer of 112 tokens, each with 2 of 8 experts of width 128 on 4 ranks.
BlockProgram layer_of(Quantisation const& quantisation,
                      RecomputePolicy const& policy = {},
                      std::int64_t shared = 0) {
  BlockShape shape{.model = gpt(1, h, 8, tokens / 2, 1000), .micro = 2};
  shape.model.precision = Precision::bf16;
  shape.model.activation = Activation::swiglu;
  shape.model.biases = false;
  shape.model.attention = Attention::flash;
  shape.model.dropout = 0;
  shape.model.experts =
      ExpertsConfig{.count = 8, .per_token = 2, .ffn_hidden = 128, .shared_ffn_hidden = shared};
  shape.expert = 4;
  shape.sends_once = true;
  shape.quantisation = quantisation;
  return build_layers(shape, 1, policy);
}

constexpr Quantisation plain{.recipe = Recipe::blockwise};
constexpr Quantisation low{.recipe = Recipe::blockwise, .sends_low = true};
constexpr Quantisation deepseek{.recipe = Recipe::blockwise, .casts_again = true};
constexpr Quantisation low_deepseek{.recipe = Recipe::blockwise,
                                    .casts_again = true,
                                    .sends_low = true,
                                    .sends_low_gradients = true};

Op const* find(std::vector<Op> const& ops, std::string const& name) {
  auto const found =
      std::ranges::find_if(ops, [&](Op const& op) { return to_string(op.name) == name; });
  return found == ops.end() ? nullptr : &*found;
}

std::int64_t payload(std::vector<Op> const& ops, std::string const& owner) {
  return find(ops, owner + ".all_to_all_tokens")->payload.count();
}

/// Bytes of what is quantised and kept for backward.
std::int64_t kept(BlockProgram const& block) {
  std::int64_t sum = 0;
  for (BufferLife const& life : block.lives) {
    Tensor const& tensor = block.tensor(life.buffer);
    if (life.is_saved() && is_quantised(tensor.type)) sum += tensor.bytes().count();
  }
  return sum;
}

std::int64_t flops(BlockProgram const& block) {
  std::int64_t sum = 0;
  for (std::vector<Op> const* ops : {&block.forward, &block.backward}) {
    for (Op const& op : *ops) sum += op.flops;
  }
  return sum;
}

TEST_CASE(
    "tokens travel with a byte per element and their scales, gradients if the library does so",
    "[model]") {
  BlockProgram const high = layer_of(plain);
  REQUIRE(payload(high.forward, "dispatch") == tokens * 2 * h);
  REQUIRE(payload(high.backward, "combine_gradient") == tokens * 2 * h);
  BlockProgram const block = layer_of(low);
  REQUIRE(payload(block.forward, "dispatch") == tokens * row);
  REQUIRE(payload(block.backward, "combine_gradient") == tokens * 2 * h);
  BlockProgram const both = layer_of(low_deepseek);
  REQUIRE(payload(both.forward, "dispatch") == tokens * row);
  REQUIRE(payload(both.backward, "combine_gradient") == tokens * row);
  // Sums of what experts compute have 16 bits in both directions.
  for (BlockProgram const* each : {&block, &both}) {
    REQUIRE(payload(each->forward, "combine") == tokens * 2 * h);
    REQUIRE(payload(each->backward, "dispatch_gradient") == tokens * 2 * h);
  }
  REQUIRE(flops(both) == flops(high));
}

TEST_CASE("a token is quantised once, and experts read rows as they arrive", "[model]") {
  BlockProgram const block = layer_of(low);
  Op const& cast = *find(block.forward, "dispatch.quantise_input");
  REQUIRE(cast.traffic.count() == tokens * (2 * h + row));
  REQUIRE(find(block.forward, "experts.up.quantise_input") == nullptr);
  Op const& product = *find(block.forward, "experts.up.forward");
  Op const& permute = *find(block.forward, "dispatch.permute");
  REQUIRE(product.reads[0] == permute.writes[0]);
  REQUIRE(block.tensor(product.reads[0]).bytes().count() == rows * row);
  // Backward makes the columns of each expert's rows: a scale for each 128 of 112 rows.
  Op const& columns = *find(block.backward, "experts.up.transpose_input");
  std::int64_t const by_columns = rows * h + 2 * h * 4;
  REQUIRE(columns.traffic.count() == rows * row + by_columns);
  REQUIRE(find(block.backward, "experts.up.weight_gradient")->reads[1] == columns.writes[0]);
  // The rows are kept in place of the columns.
  REQUIRE(kept(block) == kept(layer_of(plain)) + rows * row - by_columns);
}

TEST_CASE("gradients that arrive in 8 bits are not quantised again", "[model]") {
  BlockProgram const block = layer_of(low_deepseek);
  REQUIRE(find(block.backward, "combine.quantise_gradient")->traffic.count() ==
          tokens * (2 * h + row));
  REQUIRE(find(block.backward, "experts.down.quantise_gradient") == nullptr);
  REQUIRE(find(block.backward, "experts.down.transpose_gradient")->traffic.count() ==
          rows * row + rows * h + 2 * h * 4);
}

TEST_CASE("DeepSeek's forward makes rows alone, and backward the columns of them", "[model]") {
  BlockProgram const block = layer_of(deepseek);
  // One pass over x makes both copies in Transformer Engine.
  std::int64_t const columns = tokens * h + h * 4;  // a scale for each 128 of 112 tokens
  REQUIRE(find(layer_of(plain).forward, "attention.qkv.quantise_input")->traffic.count() ==
          tokens * (2 * h + row) + columns);
  REQUIRE(find(block.forward, "attention.qkv.quantise_input")->traffic.count() ==
          tokens * (2 * h + row));
  REQUIRE(find(block.backward, "attention.qkv.transpose_input")->traffic.count() ==
          tokens * row + columns);
  // A gradient is quantised by rows, and again by columns.
  std::int64_t const d_qkv = 3 * h;
  REQUIRE(find(block.backward, "attention.qkv.quantise_gradient_columns")->traffic.count() ==
          2 * tokens * d_qkv + tokens * d_qkv + d_qkv * 4);
}

TEST_CASE("what backward makes again is quantised by columns at once", "[model]") {
  RecomputePolicy policy;
  policy.granularity = RecomputeGranularity::selective;
  policy.modules = {"layernorm"};
  BlockProgram const block = layer_of(deepseek, policy);
  Op const& again = *find(block.backward, "attention.qkv.quantise_input");
  REQUIRE(again.traffic.count() == tokens * 2 * h + tokens * h + h * 4);
  REQUIRE(find(block.backward, "attention.qkv.weight_gradient")->reads[1] == again.writes[0]);
  REQUIRE(find(block.backward, "attention.qkv.transpose_input") == nullptr);
}

TEST_CASE("an activation that runs again reads its input as it was restored", "[model]") {
  RecomputePolicy policy;
  policy.granularity = RecomputeGranularity::selective;
  policy.modules = {"moe_act"};
  BlockProgram const block = layer_of({.recipe = Recipe::blockwise,
                                       .casts_again = true,
                                       .stores_activation_input = true,
                                       .fuses_activation = true},
                                      policy);
  // Two branches of 128 are as wide as a token.
  std::map<std::string, std::int64_t> const buffers = kept_buffers(block);
  REQUIRE(buffers.at("experts.activation.stored_input") == rows * row);
  REQUIRE(buffers.count("experts.activation.input") == 0);
  REQUIRE(buffers.count("experts.down.input") == 0);
  Op const& restored = *find(block.backward, "experts.activation.restore_input");
  REQUIRE(restored.traffic.count() == rows * row + 2 * rows * h);
  // A probability for each row; the output with a scale for each row.
  Op const& again = *find(block.backward, "experts.activation.forward");
  REQUIRE(again.reads[0] == restored.writes[0]);
  REQUIRE(again.traffic.count() == 2 * rows * h + rows * 4 + rows * (128 + 4));
}

TEST_CASE("DeepSeek's shared expert reads what is cast for tokens that travel", "[model]") {
  RecomputePolicy policy;
  policy.granularity = RecomputeGranularity::selective;
  policy.modules = {"layernorm"};
  Quantisation quantisation = low_deepseek;
  quantisation.shares_casts = true;
  BlockProgram const block = layer_of(quantisation, policy, 128);
  TensorId const sent = find(block.forward, "dispatch.quantise_input")->writes[0];
  REQUIRE(find(block.forward, "dispatch.spread")->reads[0] == sent);
  REQUIRE(find(block.forward, "shared_experts.up.forward")->reads[0] == sent);
  REQUIRE(find(block.forward, "shared_experts.up.quantise_input") == nullptr);
  TensorId const gradient = find(block.backward, "combine.quantise_gradient")->writes[0];
  REQUIRE(find(block.backward, "combine.sum_tokens_backward")->reads[0] == gradient);
  REQUIRE(find(block.backward, "shared_experts.down.input_gradient")->reads[0] == gradient);
  std::int64_t const columns = tokens * h + h * 4;  // a scale for each 128 of 112 tokens
  REQUIRE(find(block.backward, "shared_experts.down.transpose_gradient")->traffic.count() ==
          tokens * row + columns);
  // The norm runs again; its output is cast by rows, back, and by columns.
  REQUIRE(find(block.backward, "dispatch.quantise_input")->traffic.count() ==
          tokens * (2 * h + row));
  REQUIRE(find(block.backward, "shared_experts.up.cast_back_input")->traffic.count() ==
          tokens * (row + 2 * h));
  REQUIRE(find(block.backward, "shared_experts.up.quantise_input_again_columns")->traffic.count() ==
          tokens * 2 * h + columns);
}

}  // namespace
}  // namespace stagecraft::low_dispatch_test
