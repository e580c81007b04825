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

TEST_CASE("DeepSeek's activation writes 8 bits itself", "[program]") {
  TrainingConfig config = llama_run(Recipe::blockwise);
  config.low_precision.implementation = LowLibrary::deepseek;
  // What attention gives has 1.5 bytes per element in place of 2.
  REQUIRE(saved_per_token(config) == 27.5 * h);
  config.low_precision.activation_input = true;
  REQUIRE(saved_per_token(config) == (27.5 - 7) * h);
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
  REQUIRE(find(block.backward, "mlp.activation.restore_input")->traffic.count() ==
          stored + 2 * tokens * branches);
  REQUIRE(find(block.backward, "mlp.activation.backward")->traffic.count() ==
          2 * output + 2 * 2 * tokens * branches);
}

TEST_CASE("DeepSeek's backward has what attention gives in 12 bits", "[program]") {
  TrainingConfig config = llama_run(Recipe::blockwise);
  config.low_precision.implementation = LowLibrary::deepseek;
  TrainingPlan const plan = make_plan(as_settled(config));
  BlockProgram const& block = layer_of(plan);
  // A scale of 4 bytes for each 128 elements.
  std::int64_t const narrow = tokens * h * 3 / 2 + tokens * h / 128 * 4;
  REQUIRE(find(block.forward, "core_attention.narrow_context")->traffic.count() ==
          2 * tokens * h + narrow);
  Op const& wide = *find(block.backward, "core_attention.widen_context");
  REQUIRE(wide.traffic.count() == narrow + 2 * tokens * h);
  // Both the projection's backward and attention's own read it.
  REQUIRE(find(block.backward, "attention.projection.quantise_input_again_columns")->reads[0] ==
          wide.writes[0]);
  REQUIRE(find(block.backward, "core_attention.flash_backward")->reads[4] == wide.writes[0]);
}

TEST_CASE("DeepSeek keeps one quantised copy of a weight, and transposes it in each backward",
          "[program]") {
  TrainingConfig config = llama_run(Recipe::blockwise);
  config.low_precision.implementation = LowLibrary::deepseek;
  config.low_precision.transposes = KeptTransposes::keep;
  std::int64_t const both = copies(config);
  config.low_precision.transposes = KeptTransposes::make_again;
  // Weights per layer: of queries and the projection h h each, of keys and values h h / 4 together,
  // of the MLP 10.5 h h.
  std::int64_t const weights = 2 * (2 * h * h + h * h / 4 + 21 * h * h / 2);
  // A scale of 4 bytes for 128 x 128 weights; widths and depths are multiples of 4 blocks.
  REQUIRE(copies(config) == weights + weights / 128 / 128 * 4);
  REQUIRE(both == 2 * copies(config));
  TrainingPlan const plan = make_plan(as_settled(config));
  Op const& again = *find(layer_of(plan).backward, "attention.projection.transpose_weight");
  REQUIRE(again.traffic.count() == 2 * (h * h + h * h / 128 / 128 * 4));
  REQUIRE(find(layer_of(plan).backward, "attention.projection.input_gradient")->reads[1] ==
          again.writes[0]);
}

TEST_CASE("a norm finds the largest element of what it gives, or casts it", "[program]") {
  auto const traffic = [](Recipe recipe, bool is_blackwell, std::string const& name) {
    TrainingPlan const plan = make_plan(as_settled(llama_run(recipe, is_blackwell)));
    return find(layer_of(plan).forward, name)->traffic.count();
  };
  std::int64_t const elements = tokens * h;
  REQUIRE(traffic(Recipe::current, false, "attention.qkv.measure_input") == 4);
  REQUIRE(traffic(Recipe::current, false, "attention.projection.measure_input") ==
          2 * elements + 4);
  REQUIRE(traffic(Recipe::nvfp4, true, "attention.qkv.measure_input") == 2 * elements + 4);
  // It writes 8 bits in place of 16, and one scale; the columns are made of these rows.
  REQUIRE(traffic(Recipe::blockwise, false, "attention_norm.forward") -
              traffic(Recipe::delayed, false, "attention_norm.forward") ==
          elements - 4);
  REQUIRE(traffic(Recipe::delayed, false, "attention.qkv.quantise_input") == 2 * (elements + 4));
  REQUIRE(traffic(Recipe::delayed, true, "attention.qkv.quantise_input") == 0);
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
