#include <catch2/catch.hpp>
#include <string_view>

#include "libsim/model/blocks.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft {
namespace {

/// A layer of Llama 3 8B in bf16.
BlockShape llama3_8b(std::int64_t sequence, int context) {
  ModelConfig model = gpt(1, 4096, 32, sequence, 128256);
  model.kv_heads = 8;
  model.ffn_hidden = 14336;
  model.precision = Precision::bf16;
  model.activation = Activation::swiglu;
  model.norm = Norm::rmsnorm;
  model.positions = Positions::rotary;
  model.attention = Attention::flash;
  model.biases = false;
  model.dropout = 0;
  return {.model = model, .context = context, .context_group = GroupId{1}};
}

/// What a rank sends to the 7 others of 8, in one pass.
std::int64_t sent_to_others(std::vector<Op> const& ops) {
  std::int64_t sum = 0;
  for (Op const& op : ops) {
    if (op.kind == OpKind::all_to_all) sum += op.payload.count();
  }
  return sum / 8 * 7;
}

std::int64_t flash_flops(std::vector<Op> const& ops) {
  std::int64_t sum = 0;
  for (Op const& op : ops) {
    bool const counts =
        op.kind == OpKind::flash_attention || op.kind == OpKind::flash_attention_backward;
    if (counts) sum += op.flops;
  }
  return sum;
}

/// The bytes of a tensor that is kept from forward to backward; 0 if it is not.
std::int64_t kept(BlockProgram const& block, std::string_view name) {
  for (BufferLife const& life : block.lives) {
    Tensor const& tensor = block.tensor(life.buffer);
    if (life.is_saved() && to_string(tensor.name) == name) return tensor.bytes().count();
  }
  return 0;
}

constexpr std::int64_t S = 131072, C = 8, s = S / C, h = 4096, k = 1024, a = 32;

TEST_CASE("Ulysses sends queries, keys, values and context once in each pass", "[model]") {
  // 4 (C-1)/C s b (h + k) bytes a pass: 293,601,280 for Llama 3 8B, S = 131072, C = 8.
  BlockProgram const block = build_layers(llama3_8b(S, C), 1, {});
  REQUIRE(sent_to_others(block.forward) == 293'601'280);
  REQUIRE(sent_to_others(block.backward) == 293'601'280);
  // 2 b h S^2 / C FLOPs of the causal half forward, 2.5 times as many backward.
  REQUIRE(static_cast<double>(flash_flops(block.forward)) ==
          Approx(2.0 * h * S * S / C).epsilon(1e-4));
  REQUIRE(static_cast<double>(flash_flops(block.backward)) ==
          Approx(5.0 * h * S * S / C).epsilon(1e-4));
}

TEST_CASE("Ulysses keeps what core attention reads and its result before the exchange", "[model]") {
  BlockProgram const block = build_layers(llama3_8b(S, C), 1, {});
  REQUIRE(kept(block, "core_attention.q_of_heads") == 134'217'728);
  REQUIRE(kept(block, "core_attention.k_of_heads") == 33'554'432);
  REQUIRE(kept(block, "core_attention.v_of_heads") == 33'554'432);
  REQUIRE(kept(block, "core_attention.context") == 134'217'728);
  REQUIRE(kept(block, "core_attention.log_sum_exp") == 2'097'152);
  REQUIRE(kept(block, "attention.projection.input") == 134'217'728);
  // Beside a layer with as many tokens on one rank: the result twice; rows of qkv, which v is part
  // of there, are not kept, but v itself is.
  BlockProgram const alone = build_layers(llama3_8b(s, 1), 1, {});
  std::int64_t const qkv = 2 * s * (h + 2 * k);
  REQUIRE((saved_bytes(block) - saved_bytes(alone)).count() == 2 * s * h - qkv + 2 * s * k);
}

TEST_CASE("recomputed core attention exchanges again, and keeps no exchanged tensor", "[model]") {
  RecomputePolicy const policy{.granularity = RecomputeGranularity::selective,
                               .modules = {"core_attention"}};
  BlockProgram const block = build_layers(llama3_8b(S, C), 1, policy);
  // Queries, keys and values of the forward a second time; the context's way back too, as the
  // region ends behind it.
  REQUIRE(sent_to_others(block.backward) == 2 * 293'601'280);
  REQUIRE(kept(block, "core_attention.q_of_heads") == 0);
  REQUIRE(kept(block, "core_attention.context") == 0);
  REQUIRE(kept(block, "core_attention.rotated_q") == 2 * s * h);
  REQUIRE(kept(block, "attention.projection.input") == 2 * s * h);
}

TEST_CASE("all else of a layer has 1/c of the rows", "[model]") {
  BlockProgram const block = build_layers(llama3_8b(S, C), 1, {});
  REQUIRE(block.tensor(block.input).bytes() == Bytes{2 * s * h});
  auto const products = [](BlockProgram const& of) {
    return flops_of(of, [](Op const& op) { return op.kind == OpKind::gemm; });
  };
  REQUIRE(products(block) == products(build_layers(llama3_8b(s, 1), 1, {})));
  REQUIRE(products(build_head(llama3_8b(S, C), HeadWeight::own)) ==
          products(build_head(llama3_8b(s, 1), HeadWeight::own)));
}

}  // namespace
}  // namespace stagecraft
