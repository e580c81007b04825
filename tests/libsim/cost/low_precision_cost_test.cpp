#include <algorithm>
#include <catch2/catch.hpp>

#include "libsim/cost/cost_model.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft::low_precision_cost_test {
namespace {

constexpr std::int64_t h = 1024;
constexpr std::int64_t tokens = 1024;

TrainingConfig low_run(Recipe recipe) {
  TrainingConfig config;
  config.model = gpt(1, h, 8, tokens, 1024);
  config.model.precision = Precision::bf16;
  config.low_precision.recipe = recipe;
  return config;
}

Op const& op_of(TrainingPlan const& plan, std::string const& name) {
  for (BlockProgram const& block : plan.programs.blocks) {
    for (std::vector<Op> const* ops : {&block.forward, &block.backward}) {
      auto const found =
          std::ranges::find_if(*ops, [&](Op const& op) { return to_string(op.name) == name; });
      if (found != ops->end()) return *found;
    }
  }
  throw std::logic_error{name};
}

TEST_CASE("a product in 8 bits runs at the peak of 8 bits", "[cost]") {
  TrainingPlan const plan = make_plan(as_settled(low_run(Recipe::current)));
  System system = invented_system();
  Op const& product = op_of(plan, "mlp.down.forward");
  REQUIRE_THROWS_AS(CostModel(system, plan).duration(product), CostError);
  system.accelerator.peak.value.fp8 = FlopsPerSecond{200e12};
  // 4 x 8 tiles of 256 x 128 on 4 processors of 50 TFLOP/s; the output has 2 bytes.
  double const waves = 4.0 * 8 / 4;
  double const wave = 2.0 * 256 * 128 * (4 * h) / 50e12;
  REQUIRE(CostModel(system, plan).duration(product) ==
          to_sim_time(waves * wave + 2.0 * tokens * h / 1e12));
  system.calibration.low_gemm_efficiency.value = 0.5;
  REQUIRE(CostModel(system, plan).duration(product) ==
          to_sim_time(waves * 2 * wave + 2.0 * tokens * h / 1e12));
}

TEST_CASE("a product in 4 bits runs at the peak of 4 bits", "[cost]") {
  TrainingPlan const plan = make_plan(as_settled(low_run(Recipe::nvfp4)));
  System system = invented_system();
  system.accelerator.peak.value.fp8 = FlopsPerSecond{200e12};
  Op const& product = op_of(plan, "mlp.down.forward");
  REQUIRE_THROWS_AS(CostModel(system, plan).duration(product), CostError);
  system.accelerator.peak.value.fp4 = FlopsPerSecond{400e12};
  system.calibration.low_gemm_efficiency.value = 0.5;  // of 8 bits alone
  double const waves = 4.0 * 8 / 4;
  double const wave = 2.0 * 256 * 128 * (4 * h) / 100e12;
  REQUIRE(CostModel(system, plan).duration(product) ==
          to_sim_time(waves * wave + 2.0 * tokens * h / 1e12));
  system.calibration.fp4_gemm_efficiency.value = 0.25;
  REQUIRE(CostModel(system, plan).duration(product) ==
          to_sim_time(waves * 4 * wave + 2.0 * tokens * h / 1e12));
}

TEST_CASE("core attention in 8 bits runs at their peak times the efficiency of flash attention",
          "[cost]") {
  TrainingConfig config = low_run(Recipe::current);
  config.model.attention = Attention::flash;
  config.model.attention_dropout = config.model.dropout = 0;
  config.low_precision.attention = true;
  TrainingPlan const plan = make_plan(as_settled(config));
  System system = invented_system();
  system.accelerator.peak.value.fp8 = FlopsPerSecond{200e12};
  system.calibration.flash_forward_efficiency.value = 0.5;
  system.calibration.flash_backward_efficiency.value = 0.25;
  CostModel const cost{system, plan};
  // Two products of s x s x h in forward and five in backward, the causal half of each.
  double const half = 1.0 * tokens * tokens * h;
  REQUIRE(cost.duration(op_of(plan, "core_attention.flash")) == to_sim_time(2 * half / 100e12));
  REQUIRE(cost.duration(op_of(plan, "core_attention.flash_backward")) ==
          to_sim_time(5 * half / 50e12));
}

TEST_CASE("DeepSeek's kernels leave DeepEP's multiprocessors free, others only while tokens travel",
          "[cost]") {
  auto const leaves = [](LowLibrary library, Dispatch dispatch) {
    TrainingConfig config = low_run(Recipe::blockwise);
    config.low_precision.implementation = library;
    config.dispatch = dispatch;
    TrainingPlan const plan = make_plan(as_settled(config));
    System const system = invented_system();
    return CostModel(system, plan).leaves_multiprocessors();
  };
  REQUIRE(leaves(LowLibrary::deepseek, Dispatch::deepep));
  REQUIRE_FALSE(leaves(LowLibrary::deepseek, Dispatch::alltoall));
  REQUIRE_FALSE(leaves(LowLibrary::transformer_engine, Dispatch::deepep));
}

TEST_CASE("a product of fp32 that may read TF32 runs at the peak of TF32", "[cost]") {
  TrainingConfig config = low_run(Recipe::none);
  config.model.precision = Precision::fp32;
  TrainingPlan const as_it_is = make_plan(as_settled(config));
  config.tf32 = true;
  TrainingPlan const plan = make_plan(as_settled(config));
  System system = invented_system();
  Op const& product = op_of(plan, "mlp.down.forward");
  REQUIRE_THROWS_AS(CostModel(system, plan).duration(product), CostError);
  system.accelerator.peak.value.tf32 = FlopsPerSecond{200e12};
  // 4 x 8 tiles of 256 x 128 on 4 processors of 50 TFLOP/s, 25 without TF32; the output has 4
  // bytes.
  double const waves = 4.0 * 8 / 4;
  double const wave = 2.0 * 256 * 128 * (4 * h) / 50e12;
  double const output = 4.0 * tokens * h / 1e12;
  REQUIRE(CostModel(system, plan).duration(product) == to_sim_time(waves * wave + output));
  REQUIRE(CostModel(system, as_it_is).duration(product) == to_sim_time(waves * 2 * wave + output));
  // Rates that were measured are those of fp32.
  system.measured.emplace().gemm.value[Precision::fp32][GemmForm::nt] = {
      .m = {100}, .n = {100}, .k = {100}, .rates = {{1e12}}};
  REQUIRE(CostModel(system, plan).duration(product) == to_sim_time(waves * wave + output));
  REQUIRE(CostModel(system, as_it_is).duration(product) ==
          to_sim_time(static_cast<double>(product.flops) / 1e12));
}

TEST_CASE("quantising takes the time of its bytes", "[cost]") {
  System const system = invented_system();
  double const elements = 4.0 * tokens * h;  // of the input of mlp.down
  auto const time = [&](Recipe recipe, std::string const& name) {
    TrainingPlan const plan = make_plan(as_settled(low_run(recipe)));
    return CostModel(system, plan).duration(op_of(plan, "mlp.down." + name));
  };
  // 2 bytes are read and one is written in each direction, with a scale each.
  REQUIRE(time(Recipe::delayed, "quantise_input") == to_sim_time((4 * elements + 8) / 1e12));
  // The largest element is found in a pass before, and read.
  REQUIRE(time(Recipe::current, "measure_input") == to_sim_time((2 * elements + 4) / 1e12));
  REQUIRE(time(Recipe::current, "quantise_input") == to_sim_time((4 * elements + 12) / 1e12));
}

TEST_CASE("casts have a rate of their own, if a system gives it", "[cost]") {
  System system = invented_system();
  system.calibration.quantise_efficiency.value = 0.5;
  TrainingPlan const plan = make_plan(as_settled(low_run(Recipe::current)));
  CostModel const cost{system, plan};
  double const elements = 4.0 * tokens * h;  // of the input of mlp.down
  REQUIRE(cost.duration(op_of(plan, "mlp.down.quantise_input")) ==
          to_sim_time(2 * (4 * elements + 12) / 1e12));
  REQUIRE(cost.duration(op_of(plan, "mlp.down.measure_input")) ==
          to_sim_time((2 * elements + 4) / 1e12));
}

TEST_CASE("latent attention has a rate of its own", "[cost]") {
  TrainingConfig config = low_run(Recipe::none);
  config.model.attention = Attention::flash;
  config.model.attention_dropout = config.model.dropout = 0;
  config.model.positions = Positions::rotary;
  config.model.biases = false;
  config.model.head_dim = 192;
  config.model.latent_attention = {
      .query_rank = 256, .key_rank = 128, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
  TrainingPlan const plan = make_plan(as_settled(config));
  System system = invented_system();
  system.calibration.flash_forward_efficiency.value = 0.25;
  system.calibration.latent_flash_forward_efficiency.value = 0.5;
  system.calibration.latent_flash_backward_efficiency.value = 0.125;
  CostModel const cost{system, plan};
  // 8 heads: scores of 192, context of 128; backward has 3 and 2 such products.
  double const half = 1.0 * tokens * tokens * 8;
  REQUIRE(cost.duration(op_of(plan, "core_attention.flash")) ==
          to_sim_time(half * (192 + 128) / 50e12));
  REQUIRE(cost.duration(op_of(plan, "core_attention.flash_backward")) ==
          to_sim_time(half * (3 * 192 + 2 * 128) / 12.5e12));
}

TEST_CASE("the step quantises all weights of linear layers once", "[cost]") {
  TrainingPlan const plan = make_plan(as_settled(low_run(Recipe::current)));
  auto const& ops = plan.stages.front().step_ops;
  auto const step = std::ranges::find(ops, OpKind::quantise_weights, &StepOp::kind);
  REQUIRE(step != ops.end());
  // 12 h^2 weights of 4 linear layers: read twice, written in both directions with a scale each.
  REQUIRE(step->traffic.count() == 12 * h * h * (2 * 2 + 2) + 4 * 2 * 4);
}

}  // namespace
}  // namespace stagecraft::low_precision_cost_test
