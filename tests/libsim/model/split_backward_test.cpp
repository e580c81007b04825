#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "libsim/modules/blocks.hpp"
#include "libsim/program/liveness.hpp"
#include "libsim/program/memory_profile.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft::split_backward_test {
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

/// Bytes that a block keeps from its input gradient to its weight gradient.
std::int64_t held(BlockProgram const& block) {
  Bytes sum;
  for (BufferLife const& life : block.split_lives) {
    if (life.release_pass == Pass::weight_gradient && life.allocate_pass != Pass::weight_gradient) {
      sum += block.tensor(life.buffer).bytes();
    }
  }
  return sum.count();
}

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

TEST_CASE("recompute for weight gradients again keeps output gradients and the checkpoint only",
          "[model][split]") {
  RecomputePolicy const again{.granularity = RecomputeGranularity::full,
                              .for_weights = WeightRecompute::again};
  BlockProgram const block = split_layer(gpt_layer(), again);
  // Of the 32sbh above, the output gradients 6 + 2 + 8 + 2; and the layer's input.
  REQUIRE(held(block) == (18 + 2) * s * b * h);
  auto const flops = [&](BlockProgram const& of, Pass pass) {
    std::int64_t sum = 0;
    for (Op const& op : of.ops(pass)) sum += op.flops;
    return sum;
  };
  // A forward more: Table 1 of the zero-bubble paper has sbh(24h + 4s) for it.
  BlockProgram const keep = split_layer(gpt_layer(), {.granularity = RecomputeGranularity::full});
  REQUIRE(flops(block, Pass::input_gradient) == flops(keep, Pass::input_gradient));
  REQUIRE(flops(block, Pass::weight_gradient) == 24 * s * b * h * h + s * b * h * (24 * h + 4 * s));
}

TEST_CASE("what weight gradients do not read is not recomputed for them", "[model][split]") {
  // Core attention's result is an input of a product, but is kept.
  BlockProgram const core = split_layer(
      gpt_layer(),
      {.granularity = RecomputeGranularity::selective, .for_weights = WeightRecompute::again});
  REQUIRE(held(core) == 32 * s * b * h);
  // The MLP's inputs 2 + 8 go; its checkpoint 2, what the residual sum made, stays.
  BlockProgram const mlp = split_layer(gpt_layer(), {.granularity = RecomputeGranularity::selective,
                                                     .modules = {"mlp"},
                                                     .for_weights = WeightRecompute::again});
  REQUIRE(held(mlp) == (32 - 8) * s * b * h);
  std::int64_t flops = 0;
  for (Op const& op : mlp.weight_gradient) flops += op.flops;
  REQUIRE(flops == (24 + 16) * s * b * h * h);
}

TEST_CASE("early recompute is a pass of its own, and the rest of the backward as before",
          "[model][split]") {
  RecomputePolicy policy{.granularity = RecomputeGranularity::full};
  BlockProgram const whole = split_layer(gpt_layer(2, true), policy);
  policy.early = EarlyRecompute::bubble;
  BlockProgram const early = split_layer(gpt_layer(2, true), policy);
  auto const flops = [&](BlockProgram const& of, Pass pass) {
    std::int64_t sum = 0;
    for (Op const& op : of.ops(pass)) sum += op.flops;
    return sum;
  };
  REQUIRE(flops(early, Pass::recompute) == flops(early, Pass::forward));
  for (Pass const pass : {Pass::backward, Pass::input_gradient}) {
    REQUIRE(flops(early, pass) == flops(whole, pass) - flops(early, Pass::forward));
  }
  REQUIRE(flops(early, Pass::weight_gradient) == flops(whole, Pass::weight_gradient));
  // After it the layer holds what it would without recompute, and the copy of its output that a
  // checkpoint's frame has: 2sbh over 2 ranks.
  CategoryBytes after = profile_memory(early, Pass::forward).net;
  after += profile_memory(early, Pass::recompute).net;
  CategoryBytes const stored = profile_memory(split_layer(gpt_layer(2, true)), Pass::forward).net;
  REQUIRE(after.sum() == stored.sum() + s * b * h);
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

TEST_CASE("an input gradient waits at once for the all-reduce that a whole backward hides",
          "[model][split]") {
  // Megatron-LM, sail-sg/zero-bubble and Megatron-DeepSpeed start the all-reduce, compute the
  // weight gradient or put it off, and wait.
  BlockProgram const block = split_layer(gpt_layer(2, false));
  auto const products_beside = [&](Pass pass) {
    std::vector<Op> const& ops = block.ops(pass);
    std::vector<std::int64_t> products;  // by all-reduce
    for (auto wait = ops.begin(); wait != ops.end(); ++wait) {
      if (wait->kind != OpKind::wait) continue;
      auto const collective = ops.begin() + wait->waits_for;
      if (collective->kind != OpKind::all_reduce) continue;
      products.push_back(
          std::count_if(collective, wait, [](Op const& op) { return op.kind == OpKind::gemm; }));
    }
    return products;
  };
  REQUIRE(products_beside(Pass::backward) == std::vector<std::int64_t>{1, 1});
  REQUIRE(products_beside(Pass::input_gradient) == std::vector<std::int64_t>{0, 0});
  REQUIRE(products_beside(Pass::weight_gradient).empty());
}

}  // namespace stagecraft::split_backward_test
