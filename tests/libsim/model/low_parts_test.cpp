#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/libsim/model/low_runs.hpp"

/// What is in 8 bits besides the products of linear layers, and what of these is not.
namespace stagecraft::low_parts_test {
namespace {

using namespace low_runs;

/// Elements per token: both branches of the MLP; queries, keys and values.
constexpr std::int64_t branches = 7 * h;
constexpr std::int64_t heads = h + 2 * h / 8;

Op const* find(std::vector<Op> const& ops, std::string const& name) {
  auto const found =
      std::ranges::find_if(ops, [&](Op const& op) { return to_string(op.name) == name; });
  return found == ops.end() ? nullptr : &*found;
}

std::int64_t flops(BlockProgram const& block) {
  std::int64_t sum = 0;
  for (std::vector<Op> const* ops : {&block.forward, &block.backward}) {
    for (Op const& op : *ops) sum += op.flops;
  }
  return sum;
}

TEST_CASE("the input of the activation is kept with a byte per element", "[program]") {
  TrainingConfig config = llama_run(Recipe::blockwise);
  config.low_precision.activation_input = true;
  REQUIRE(saved_per_token(config) == (28.0 - 7) * h);
  TrainingPlan const plan = make_plan(as_settled(config));
  BlockProgram const& block = layer_of(plan);
  // Cast without scales, and back.
  REQUIRE(find(block.forward, "mlp.activation.store_input")->traffic.count() ==
          tokens * branches * (2 + 1));
  Op const& back = *find(block.backward, "mlp.activation.restore_input");
  REQUIRE(back.traffic.count() == tokens * branches * (1 + 2));
  Op const& activation = *find(block.backward, "mlp.activation.backward");
  REQUIRE(activation.reads[1] == back.writes[0]);
}

TEST_CASE("DeepSeek's activation reads and writes 8 bits itself", "[program]") {
  TrainingConfig config = llama_run(Recipe::blockwise);
  config.low_precision.implementation = LowLibrary::deepseek;
  REQUIRE(saved_per_token(config) == 28.0 * h);
  config.low_precision.activation_input = true;
  REQUIRE(saved_per_token(config) == (28.0 - 7) * h);
  TrainingPlan const plan = make_plan(as_settled(config));
  BlockProgram const& block = layer_of(plan);
  // A scale of 4 bytes for each 128 elements.
  std::int64_t const stored = tokens * branches + tokens * branches / 32;
  REQUIRE(find(block.forward, "mlp.activation.store_input")->traffic.count() ==
          tokens * branches * 2 + stored);
  std::int64_t const output = branches / 2 * tokens;
  REQUIRE(find(block.forward, "mlp.activation.forward")->traffic.count() ==
          tokens * branches * 2 + output + output / 32);
  REQUIRE(find(block.forward, "mlp.down.quantise_input") == nullptr);
  REQUIRE(find(block.backward, "mlp.activation.restore_input") == nullptr);
  REQUIRE(find(block.backward, "mlp.activation.backward")->traffic.count() ==
          2 * output + stored + 2 * tokens * branches);
}

TEST_CASE("core attention in 8 bits keeps queries, keys and values with a byte per element",
          "[program]") {
  TrainingConfig config = llama_run(Recipe::current);
  std::int64_t const work = flops(layer_of(make_plan(as_settled(config))));
  config.low_precision.attention = true;
  REQUIRE(saved_per_token(config) == 28.0 * h - heads);
  TrainingPlan const plan = make_plan(as_settled(config));
  BlockProgram const& block = layer_of(plan);
  REQUIRE(flops(block) == work);
  // The context has 16 bits, a sum of each row and head 32.
  std::int64_t const sums = 4 * tokens * 32;
  REQUIRE(find(block.forward, "core_attention.flash")->traffic.count() ==
          tokens * heads + 3 * 4 + 2 * tokens * h + sums);
  REQUIRE(find(block.forward, "core_attention.quantise_q")->traffic.count() ==
          tokens * h * (2 + 1) + 2 * 4);
  Op const& gradient = *find(block.backward, "core_attention.quantise_context_gradient");
  REQUIRE(block.tensor(gradient.writes[0]).type == ElementType::f8_e5m2);
  REQUIRE(find(block.backward, "core_attention.flash_backward")->traffic.count() ==
          tokens * (h + heads) + 4 * 4 + 2 * tokens * h + sums + 2 * tokens * heads);
}

TEST_CASE("a head in 8 bits keeps copies of its weight once", "[program]") {
  auto const head_of = [](bool is_low, int predicted) {
    TrainingConfig config = llama_run(Recipe::mxfp8, true);
    config.model.tied_embeddings = false;
    config.model.predicted_tokens = predicted;
    config.low_precision.head = is_low;
    return config;
  };
  std::int64_t const weight = 1024 * h;
  for (int const predicted : {0, 1}) {
    REQUIRE(copies(head_of(true, predicted)) - copies(head_of(false, predicted)) ==
            2 * weight + weight / 16);
  }
  TrainingPlan const plan = make_plan(as_settled(head_of(true, 0)));
  BlockProgram const& head =
      *std::ranges::find(plan.programs.blocks, BlockProgram::Kind::head, &BlockProgram::kind);
  for (std::string const product : {"input_gradient", "weight_gradient"}) {
    Op const& op = *find(head.backward, "head.logits." + product);
    REQUIRE(std::get<GemmAttributes>(op.attributes).scaling == Scaling::blocks_of_32);
  }
}

TEST_CASE("layers that stay high keep no copies", "[program]") {
  TrainingConfig config = llama_run(Recipe::current);
  std::int64_t const all = copies(config);
  config.low_precision.keep_high.first = 1;
  REQUIRE(copies(config) == all / 2);
  TrainingPlan const plan = make_plan(as_settled(config));
  std::vector<std::size_t> kept;
  for (BlockProgram const& block : plan.programs.blocks) {
    if (block.kind == BlockProgram::Kind::layers) kept.push_back(block.quantised_weights.size());
  }
  REQUIRE(kept == std::vector<std::size_t>{0, 4});
}

TEST_CASE("gradients of weights that stay high read and keep 16 bits", "[program]") {
  TrainingConfig config = llama_run(Recipe::current);
  config.low_precision.keep_high.wgrad = true;
  REQUIRE(saved_per_token(config) == 33.5 * h);
  TrainingPlan const plan = make_plan(as_settled(config));
  for (Op const& op : layer_of(plan).backward) {
    auto const* const gemm = std::get_if<GemmAttributes>(&op.attributes);
    if (gemm == nullptr) continue;
    REQUIRE(is_quantised(gemm->a) == (op.phase != Phase::weight_gradient));
  }
}

}  // namespace
}  // namespace stagecraft::low_parts_test
