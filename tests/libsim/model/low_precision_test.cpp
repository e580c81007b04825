#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "libsim/program/quantisation.hpp"
#include "tests/libsim/model/low_runs.hpp"

namespace stagecraft::low_precision_test {
namespace {

using namespace low_runs;

/// Weights of the linear layers: queries, keys and values, projection, both branches of the MLP,
/// its output.
constexpr std::int64_t weights = 2 * (h * (h + 2 * h / 8) + h * h + 3 * (7 * h / 2) * h);

TEST_CASE("a dense layer keeps 28 or 29 h bytes per token in 8 bits, and 33.5 h in 16",
          "[program]") {
  // In 8 bits the outputs of both norms and of the activation have one byte (-5.5 h). With
  // `delayed` the attention's output is kept in 16 bits for attention and in 8 for the projection
  // (+1 h); with the others the projection quantises it again.
  REQUIRE(saved_per_token(llama_run(Recipe::none)) == 33.5 * h);
  auto const [recipe, is_blackwell] = GENERATE(table<Recipe, bool>({{Recipe::delayed, false},
                                                                    {Recipe::current, false},
                                                                    {Recipe::current, true},
                                                                    {Recipe::blockwise, false},
                                                                    {Recipe::mxfp8, true}}));
  double const kept_twice = recipe == Recipe::delayed ? h : 0;
  REQUIRE(saved_per_token(llama_run(recipe, is_blackwell)) == 28.0 * h + kept_twice);
  // In 4 bits the same outputs have half a byte.
  REQUIRE(saved_per_token(llama_run(Recipe::nvfp4, true)) == 28.0 * h - 5.5 * h / 2);
}

TEST_CASE("copies of weights take two bytes on Hopper, one with a scale per tensor on Blackwell",
          "[program]") {
  std::int64_t const linears = 2 * 4;
  std::int64_t const scale = 4;
  REQUIRE(copies(llama_run(Recipe::current)) == 2 * (weights + linears * scale));
  REQUIRE(copies(llama_run(Recipe::current, true)) == weights + linears * scale);
  // A byte for each 32 elements in each direction; all extents are multiples of 128.
  REQUIRE(copies(llama_run(Recipe::mxfp8, true)) == 2 * weights + weights / 16);
  REQUIRE(copies(llama_run(Recipe::blockwise)) == 2 * (weights + weights / (128 * 128) * 4));
  // Half a byte, a byte for each 16 elements, and a scale of the whole, in each direction.
  REQUIRE(copies(llama_run(Recipe::nvfp4, true)) ==
          2 * (weights / 2 + weights / 16 + linears * scale));
}

TEST_CASE("an operand has the scales of whole blocks, padded", "[program]") {
  RecipeTraits const& mx = *find_recipe(Recipe::mxfp8);
  // 100 x 96: 3 scales of 100 rows, padded to 4 x 128; 4 scales of 96 columns, to 4 x 128.
  REQUIRE(scale_layout(mx, ScaledRole::activation, {.rows = 100, .columns = 96}, false).bytes ==
          4 * 128);
  REQUIRE(scale_layout(mx, ScaledRole::activation, {.rows = 100, .columns = 96}, true).bytes ==
          4 * 128);
  RecipeTraits const& blocks = *find_recipe(Recipe::blockwise);
  // 300 x 256: 2 scales of 4 bytes for 300 rows; 3 for 256 columns; 3 x 2 of a weight, 2 padded
  // to 4.
  REQUIRE(
      scale_layout(blocks, ScaledRole::activation, {.rows = 300, .columns = 256}, false).bytes ==
      2 * 300 * 4);
  REQUIRE(scale_layout(blocks, ScaledRole::activation, {.rows = 300, .columns = 256}, true).bytes ==
          3 * 256 * 4);
  REQUIRE(scale_layout(blocks, ScaledRole::weight, {.rows = 300, .columns = 256}, false).bytes ==
          3 * 4 * 4);
  RecipeTraits const& fours = *find_recipe(Recipe::nvfp4);
  // 100 x 96: 6 scales of 100 rows, padded to 8 x 128; 7 scales of 96 columns, to 8 x 128.
  REQUIRE(scale_layout(fours, ScaledRole::weight, {.rows = 100, .columns = 96}, false).bytes ==
          8 * 128 + 4);
  REQUIRE(scale_layout(fours, ScaledRole::weight, {.rows = 100, .columns = 96}, true).bytes ==
          8 * 128 + 4);
  RecipeTraits const& tensor = *find_recipe(Recipe::current);
  REQUIRE(scale_layout(tensor, ScaledRole::weight, {.rows = 64, .columns = 64, .groups = 8}, true)
              .bytes == 8 * 4);
}

TEST_CASE("linear layers multiply in 8 bits forward and backward, all else does not", "[program]") {
  TrainingPlan const plan = make_plan(as_settled(llama_run(Recipe::current)));
  for (BlockProgram const& block : plan.programs.blocks) {
    for (std::vector<Op> const* ops : {&block.forward, &block.backward}) {
      for (Op const& op : *ops) {
        auto const* const gemm = std::get_if<GemmAttributes>(&op.attributes);
        if (gemm == nullptr) continue;
        bool const is_low = block.kind == BlockProgram::Kind::layers;
        REQUIRE((gemm->scaling == Scaling::tensor) == is_low);
        REQUIRE(is_quantised(gemm->a) == is_low);
        // Gradients have the wider range.
        bool const is_forward = op.phase == Phase::forward;
        if (is_low) REQUIRE(gemm->a == (is_forward ? ElementType::f8_e4m3 : ElementType::f8_e5m2));
      }
    }
  }
}

TEST_CASE("a layer that is recomputed keeps nothing in 8 bits, and transposes nothing in forward",
          "[program]") {
  TrainingConfig config = llama_run(Recipe::current);
  config.recompute.front().granularity = RecomputeGranularity::full;
  REQUIRE(saved_per_token(config) == 2.0 * h);
  TrainingPlan const plan = make_plan(as_settled(config));
  for (Op const& op : layer_of(plan).forward) {
    if (op.kind == OpKind::quantise) REQUIRE(op.writes.size() == 1);
  }
}

TEST_CASE("outputs of norms are discarded in 8 bits too, and quantised again in backward",
          "[program]") {
  auto const [recipe, kept] = GENERATE(table<Recipe, double>({{Recipe::none, 33.5 - 2 * 2},
                                                              {Recipe::current, 28.0 - 2 * 1},
                                                              {Recipe::blockwise, 28.0 - 2 * 1},
                                                              {Recipe::mxfp8, 28.0 - 2 * 1}}));
  TrainingConfig config = llama_run(recipe, recipe == Recipe::mxfp8);
  config.recompute.front().granularity = RecomputeGranularity::selective;
  config.recompute.front().modules = {"layernorm"};
  REQUIRE(saved_per_token(config) == kept * h);
  // Forward quantises only the rows of the norms' outputs, and backward only their columns.
  TrainingPlan const plan = make_plan(as_settled(config));
  BlockProgram const& block = layer_of(plan);
  for (std::string const name : {"attention.qkv.quantise_input", "mlp.up.quantise_input"}) {
    for (std::vector<Op> const* ops : {&block.forward, &block.backward}) {
      auto const count = std::ranges::count_if(
          *ops, [&](Op const& op) { return to_string(op.name) == name && op.writes.size() == 1; });
      REQUIRE(count == (recipe == Recipe::none ? 0 : 1));
    }
  }
}

TEST_CASE("with sequence parallelism operands travel in 8 bits", "[program]") {
  auto const gathered = [](Recipe recipe) {
    TrainingConfig config = llama_run(recipe, true);
    config.parallel.tensor = 4;
    config.parallel.sequence = true;
    TrainingPlan const plan = make_plan(as_settled(config));
    std::int64_t bytes = 0;
    BlockProgram const& block = layer_of(plan);
    for (std::vector<Op> const* ops : {&block.forward, &block.backward}) {
      for (Op const& op : *ops) {
        if (op.kind == OpKind::all_gather) bytes += op.payload.count();
      }
    }
    return bytes;
  };
  // Inputs of two layers in both passes, output gradients of two in backward.
  REQUIRE(gathered(Recipe::none) == 6 * 2 * h * tokens);
  REQUIRE(gathered(Recipe::current) == 6 * (h * tokens + 4));
  // The gradients in both directions.
  REQUIRE(gathered(Recipe::mxfp8) == 8 * (h * tokens + h * tokens / 32));
}

/// The step's traffic or payload of an op, by name; 0 if there is none.
std::int64_t moved(TrainingPlan const& plan, std::string const& name) {
  for (StepOp const& op : plan.stages.front().step_ops) {
    if (to_string(op.name) != "step." + name) continue;
    return is_collective(op.kind) ? op.payload.count() : op.traffic.count();
  }
  return 0;
}

TEST_CASE("parameters in 8 bits are kept, quantised and gathered without a copy in 16",
          "[program]") {
  constexpr int d = 8;
  // Two norms of each layer, the last one, words and positions.
  constexpr std::int64_t high = 5 * h + (1024 + tokens) * h;
  auto const [recipe, is_blackwell, copied] =
      GENERATE(table<Recipe, bool, std::int64_t>({{Recipe::delayed, false, 2},
                                                  {Recipe::current, true, 1},
                                                  {Recipe::blockwise, false, 2},
                                                  {Recipe::mxfp8, true, 2},
                                                  {Recipe::nvfp4, true, 1}}));
  TrainingConfig config = llama_run(recipe, is_blackwell);
  std::int64_t const beside = copies(config);
  config.low_precision.parameters = LowOrHigh::low;
  config.batch.global = d;
  config.parallel.data = d;
  config.sharding.kind = ShardingKind::distributed_optimizer;
  TrainingPlan const plan = make_plan(as_settled(config));
  StagePlan const& stage = plan.stages.front();
  REQUIRE(stage.parameters == weights + high);
  REQUIRE(stage.state_of(step_tensor::parameters).bytes().count() == 2 * high);
  REQUIRE(copies(config) == beside);  // with scales
  REQUIRE(beside / weights == copied);
  REQUIRE(stage.state_of(step_tensor::master).bytes().count() == 4 * (weights + high) / d);

  REQUIRE(moved(plan, "all_gather_parameters") == 2 * high);
  REQUIRE(moved(plan, "narrow_parameters") == (4 + 2) * high / d);
  if (recipe == Recipe::mxfp8) {
    // Blocks of columns are not those of rows: 16 bits go where gradients were, and both copies
    // are made of them.
    REQUIRE(moved(plan, "narrow_weights") == (4 + 2) * weights / d);
    REQUIRE(moved(plan, "all_gather_weights") == 2 * weights);
    REQUIRE(moved(plan, "quantise_weights") == 2 * weights + beside);
    return;
  }
  // A scale that is not known before takes a pass of its own.
  std::int64_t const passes = recipe == Recipe::delayed ? 1 : 2;
  std::int64_t const bits = recipe == Recipe::nvfp4 ? 4 : 8;
  std::int64_t const low = weights * bits / 8;
  REQUIRE(moved(plan, "quantise_weights") == 4 * passes * weights / d + low / d);
  REQUIRE(moved(plan, "all_gather_weights") == low);
  bool const has_transposed = copied == 2 || bits == 4;
  REQUIRE(moved(plan, "transpose_weights") == (has_transposed ? 2 * low : 0));
}

}  // namespace
}  // namespace stagecraft::low_precision_test
