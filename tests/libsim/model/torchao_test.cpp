#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <variant>
#include <vector>

#include "libsim/program/liveness.hpp"
#include "tests/libsim/model/low_runs.hpp"

/// Linear layers as torchao/float8/float8_linear.py has them: matmul_with_hp_or_float8_args saves
/// the input and the weight as they come, and casts them in both passes.
namespace stagecraft::torchao_test {
namespace {

using namespace low_runs;

constexpr std::int64_t linears = 4;
/// Elements of a layer's linear weights, and of the output of the MLP and its input.
constexpr std::int64_t weights = h * (h + 2 * h / 8) + h * h + 3 * (7 * h / 2) * h;
constexpr std::int64_t ffn = 7 * h / 2;

TrainingConfig torchao_run(Recipe recipe) {
  TrainingConfig config = llama_run(recipe);
  config.low_precision.implementation = LowLibrary::torchao;
  return config;
}

BlockProgram layer_program(TrainingConfig const& config) {
  return layer_of(make_plan(as_settled(config)));
}

std::vector<Op> ops_of(BlockProgram const& block, OpKind kind) {
  std::vector<Op> found;
  for (std::vector<Op> const* ops : {&block.forward, &block.backward}) {
    std::ranges::copy_if(*ops, std::back_inserter(found),
                         [kind](Op const& op) { return op.kind == kind; });
  }
  return found;
}

/// The traffic of the op of a name; 0 if there is none.
std::int64_t moved(BlockProgram const& block, std::string const& name) {
  for (std::vector<Op> const* ops : {&block.forward, &block.backward}) {
    for (Op const& op : *ops) {
      if (to_string(op.name) == name) return op.traffic.count();
    }
  }
  return 0;
}

TEST_CASE("torchao's linear layers keep their inputs as in 16 bits, and no copies of weights",
          "[program]") {
  Recipe const recipe = GENERATE(Recipe::current, Recipe::rowwise);
  REQUIRE(saved_per_token(torchao_run(recipe)) == 33.5 * h);
  REQUIRE(layer_program(torchao_run(recipe)).quantised_weights.empty());
}

TEST_CASE("torchao casts six operands per linear layer, two of them in forward", "[program]") {
  for (Recipe const recipe : {Recipe::current, Recipe::rowwise}) {
    BlockProgram const block = layer_program(torchao_run(recipe));
    std::size_t copies = 0;
    for (Op const& op : ops_of(block, OpKind::quantise)) copies += op.writes.size();
    REQUIRE(copies == 6 * linears);
    REQUIRE(std::ranges::count(block.forward, OpKind::quantise, &Op::kind) == 2 * linears);
    // One largest element of each tensor; rows have theirs in the cast's own kernel.
    std::size_t const measured = ops_of(block, OpKind::measure_amax).size();
    REQUIRE(measured == (recipe == Recipe::current ? 3 * linears : 0));
    for (Op const& op : ops_of(block, OpKind::gemm)) {
      auto const& gemm = std::get<GemmAttributes>(op.attributes);
      REQUIRE(gemm.scaling == (recipe == Recipe::current ? Scaling::tensor : Scaling::rows));
      bool const is_wide = recipe == Recipe::current && op.phase != Phase::forward;
      REQUIRE(gemm.a == (is_wide ? ElementType::f8_e5m2 : ElementType::f8_e4m3));
    }
  }
}

TEST_CASE("torchao's casts move the bytes of its roofline", "[program]") {
  // torchao/testing/training/roofline_utils.py, get_tensor_memory_traffic_ovhd_s, by kernel: 2
  // bytes of each element that is read or written in 16 bits, 1 in 8; scales besides.
  std::int64_t const weight = h * ffn;
  std::int64_t const gradient = tokens * h;
  BlockProgram const tensor = layer_program(torchao_run(Recipe::current));
  CHECK(moved(tensor, "mlp.down.measure_weight") == 2 * weight + 4);
  CHECK(moved(tensor, "mlp.down.quantise_weight") == 3 * weight + 8);
  CHECK(moved(tensor, "mlp.down.quantise_weight_again") == 3 * weight + 8);
  CHECK(moved(tensor, "mlp.down.quantise_gradient") == 4 * gradient + 12);
  BlockProgram const rows = layer_program(torchao_run(Recipe::rowwise));
  CHECK(moved(rows, "mlp.down.quantise_weight") == 3 * weight + 4 * h);
  CHECK(moved(rows, "mlp.down.transpose_weight_again") == 4 * weight);
  CHECK(moved(rows, "mlp.down.quantise_weight_again_columns") == 3 * weight + 4 * ffn);
  CHECK(moved(rows, "mlp.down.quantise_gradient") + moved(rows, "mlp.down.transpose_gradient") ==
        5 * gradient + 4 * tokens);
  CHECK(moved(rows, "mlp.down.quantise_gradient_columns") == 3 * gradient + 4 * h);
}

TEST_CASE("rowwise_with_gw_hp casts one direction, and sums gradients of weights in 16 bits",
          "[program]") {
  TrainingConfig config = torchao_run(Recipe::rowwise);
  config.low_precision.keep_high.wgrad = true;
  BlockProgram const block = layer_program(config);
  std::size_t copies = 0;
  for (Op const& op : ops_of(block, OpKind::quantise)) copies += op.writes.size();
  // Input, weight and gradient along rows, and the weight again.
  REQUIRE(copies == 4 * linears);
  REQUIRE(ops_of(block, OpKind::copy_tensor).empty());
  // cc_w_gi: grad_output_fp8_axiswise_dim0 @ weight_fp8_tensorwise. The largest element of a weight
  // is found in a pass over its 16 bits, and has 4 bytes.
  REQUIRE(ops_of(block, OpKind::measure_amax).size() == linears);
  REQUIRE(moved(block, "mlp.down.measure_weight_again") == 2 * h * ffn + 4);
  for (Op const& op : ops_of(block, OpKind::gemm)) {
    auto const& gemm = std::get<GemmAttributes>(op.attributes);
    REQUIRE(is_quantised(gemm.a) == (op.phase != Phase::weight_gradient));
  }
}

TEST_CASE("a split backward gathers an input before it casts it again", "[program]") {
  TrainingConfig config = torchao_run(Recipe::rowwise);
  config.parallel.tensor = 4;
  config.parallel.sequence = true;
  BlockProgram block = layer_program(config);
  split_backward(block);
  std::vector<std::string> inputs;
  for (Op const& op : block.backward) {
    std::string const name = to_string(op.name);
    bool const is_of_input = name.starts_with("mlp.up.") && name.ends_with("_again");
    // A gather for gradients of weights would wait for the second pass, where nothing reads it.
    if (name == "mlp.up.all_gather_again") REQUIRE(op.phase == Phase::input_gradient);
    if (is_of_input && name.find("weight") == std::string::npos) inputs.push_back(name);
  }
  REQUIRE(inputs.front() == "mlp.up.all_gather_again");
  REQUIRE(inputs.size() > 1);
}

TEST_CASE(
    "with tensor parallelism torchao gathers 8 bits with one scale, and 16 with those of rows",
    "[program]") {
  auto const split = [](Recipe recipe) {
    TrainingConfig config = torchao_run(recipe);
    config.parallel.tensor = 4;
    config.parallel.sequence = true;
    return layer_program(config);
  };
  auto const gathered = [](BlockProgram const& block) {
    std::int64_t bytes = 0;
    for (Op const& op : ops_of(block, OpKind::all_gather)) bytes += op.payload.count();
    return bytes;
  };
  // Inputs of two layers in both passes, output gradients of two in backward.
  BlockProgram const tensor = split(Recipe::current);
  CHECK(gathered(tensor) == 6 * (h * tokens + 4));
  CHECK(gathered(split(Recipe::rowwise)) == 12 * h * tokens);
  // max() of a DTensor is that of all shards: an input, a weight and a gradient of each layer.
  CHECK(ops_of(tensor, OpKind::all_reduce).size() == 3 * linears);
  CHECK(ops_of(split(Recipe::rowwise), OpKind::all_reduce).empty());
}

TEST_CASE("units of fsdp2 gather a byte per weight of a linear layer, or two", "[program]") {
  // torchao/float8/fsdp_utils.py, WeightWithDynamicFloat8CastTensor. Both norms stay in 16 bits.
  auto const [type, bytes] = GENERATE(table<UnitType, std::int64_t>(
      {{UnitType::low, weights + 4 * h}, {UnitType::automatic, 2 * weights + 4 * h}}));
  TrainingConfig config = torchao_run(Recipe::current);
  config.parallel.data = 4;
  config.batch.global = 4;
  config.sharding.kind = ShardingKind::fsdp2;
  config.sharding.parameter_dtype = type;
  TrainingPlan const plan = make_plan(as_settled(config));
  std::vector<std::int64_t> payloads;
  std::size_t casts = 0;
  for (BlockProgram const& block : plan.programs.blocks) {
    for (Op const& op : ops_of(block, OpKind::all_gather)) payloads.push_back(op.payload.count());
    if (block.kind != BlockProgram::Kind::layers) continue;
    casts = 0;
    for (Op const& op : ops_of(block, OpKind::quantise)) casts += op.writes.size();
    // The copies that the products read are parts of what was gathered.
    for (Op const& op : ops_of(block, OpKind::gemm)) {
      bool const is_gathered = block.tensor(op.reads[1]).category == Category::gathered;
      REQUIRE(is_gathered == (type == UnitType::low && op.phase == Phase::forward));
    }
  }
  CHECK(std::ranges::count(payloads, bytes) > 0);
  // Neither pass casts a weight that was gathered so; backward transposes it.
  CHECK(casts == (type == UnitType::low ? 4 : 6) * linears);
}

}  // namespace
}  // namespace stagecraft::torchao_test
