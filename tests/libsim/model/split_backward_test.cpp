#include <catch2/catch.hpp>

#include "libsim/model/blocks.hpp"
#include "libsim/model/liveness.hpp"
#include "libsim/model/memory_profile.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft {
namespace {

constexpr std::int64_t s = 64;
constexpr std::int64_t b = 2;
constexpr std::int64_t h = 128;

/// One layer with its backward split.
BlockProgram split_layer(BlockShape const& shape, RecomputePolicy const& policy = {}) {
  BlockProgram block = build_layers(shape, 1, policy);
  split_backward(block);
  return block;
}

BlockShape gpt_layer(int tensor = 1, bool sequence_parallel = false) {
  return {.model = gpt(1, h, 8, s, 1000),
          .tensor = tensor,
          .sequence_parallel = sequence_parallel,
          .micro = b};
}

std::int64_t held(BlockProgram const& block) { return bytes_until_weight_gradient(block).count(); }

}  // namespace

TEST_CASE("a GPT layer holds 32sbh from its input gradient to its weight gradient",
          "[model][split]") {
  // By linear: inputs 2 + 2 + 2 + 8, output gradients 6 + 2 + 8 + 2, times sbh; Qi et al. 2023,
  // arXiv:2401.10241, has the same 32 in its memory model (sail-sg/zero-bubble, W: -32h).
  REQUIRE(held(split_layer(gpt_layer())) == 32 * s * b * h);
}

TEST_CASE("with sequence parallelism the shards of column inputs and whole row gradients stay",
          "[model][split]") {
  // Inputs of the column-parallel linears 2 + 2 and of the row-parallel ones 2 + 8, gradients of
  // the former 6 + 8, all over t; gradients of the latter, gathered for dx, 2 + 2.
  int const t = GENERATE(2, 4);
  REQUIRE(held(split_layer(gpt_layer(t, true))) == (28 / t + 4) * s * b * h);
  // Without it, column inputs and row gradients are whole.
  REQUIRE(held(split_layer(gpt_layer(t, false))) == (8 + 24 / t) * s * b * h);
}

TEST_CASE("a Llama layer holds as much after its input gradient as before, but for statistics",
          "[model][split]") {
  BlockShape shape = gpt_layer();
  shape.model.kv_heads = 2;  // h_kv = 2h/8
  shape.model.ffn_hidden = 448;
  shape.model.activation = Activation::swiglu;
  shape.model.norm = Norm::rmsnorm;
  shape.model.positions = Positions::rotary;
  shape.model.attention = Attention::flash;
  shape.model.biases = false;
  shape.model.dropout = 0;
  std::int64_t const by_hand = s * b * (12 * h + 4 * (2 * h / 8) + 6 * 448);
  REQUIRE(held(split_layer(shape)) == by_hand);
}

TEST_CASE("full recompute does not reduce what a layer holds for its weight gradients",
          "[model][split]") {
  RecomputePolicy const full{.granularity = RecomputeGranularity::full};
  REQUIRE(held(split_layer(gpt_layer(), full)) == 32 * s * b * h);
}

TEST_CASE("the passes of a split backward run each op of the whole one once", "[model][split]") {
  auto const granularity = GENERATE(RecomputeGranularity::none, RecomputeGranularity::selective,
                                    RecomputeGranularity::full);
  bool const sequence = GENERATE(false, true);
  BlockProgram const block = split_layer(gpt_layer(2, sequence), {.granularity = granularity});
  auto const flops = [&](Pass pass) {
    std::int64_t sum = 0;
    for (Op const& op : block.ops(pass)) sum += op.flops;
    return sum;
  };
  auto const computed = [&](Pass pass) {
    return std::count_if(block.ops(pass).begin(), block.ops(pass).end(),
                         [](Op const& op) { return op.kind != OpKind::wait; });
  };
  REQUIRE(computed(Pass::input_gradient) + computed(Pass::weight_gradient) ==
          computed(Pass::backward));
  REQUIRE(flops(Pass::input_gradient) + flops(Pass::weight_gradient) == flops(Pass::backward));
  // Table 1 of the zero-bubble paper: 24sbh^2 for the weights of a layer, over 2 tensor ranks.
  REQUIRE(flops(Pass::weight_gradient) == 24 * s * b * h * h / 2);
  CategoryBytes sum = profile_memory(block, Pass::input_gradient).net;
  sum += profile_memory(block, Pass::weight_gradient).net;
  REQUIRE(sum == profile_memory(block, Pass::backward).net);
}

}  // namespace stagecraft
