#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "libsim/modules/blocks.hpp"
#include "tests/libexec/kernels/lockstep_run.hpp"

namespace stagecraft::test::block_program_test {
namespace {

// The model's own programs, run op by op: what kernels expect is what the model writes.

/// Layers that between them have every op kind of a layer.
std::vector<ModelConfig> layer_models(Precision precision) {
  ModelConfig const gpt = small_model(precision);
  ModelConfig llama = gpt;
  llama.kv_heads = 2;
  llama.activation = Activation::swiglu;
  llama.norm = Norm::rmsnorm;
  llama.positions = Positions::rotary;
  llama.biases = false;
  llama.dropout = 0;
  ModelConfig flash = gpt;
  flash.attention = Attention::flash;
  flash.kv_heads = 2;
  flash.activation = Activation::swiglu;
  ModelConfig regenerated = llama;
  regenerated.dropout = 0.25;
  regenerated.dropout_mask = DropoutMask::regenerated;
  return {gpt, llama, flash, regenerated};
}

struct Whole {
  std::vector<double> output, grad_input;
  std::vector<std::vector<double>> gradients;
};

Whole run_layer(BlockShape const& shape,
                RecomputePolicy const& policy,
                CpuKernelOptions const& options) {
  BlockProgram const program = build_layers(shape, 1, policy);
  LockstepRun lockstep{program, shape, options};
  lockstep.run();
  Whole whole{.output = lockstep.whole_hidden(program.output),
              .grad_input = lockstep.whole_hidden(program.grad_input),
              .gradients = {}};
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    whole.gradients.push_back(lockstep.whole_gradient(i));
  }
  return whole;
}

void require_close(std::vector<double> const& got,
                   std::vector<double> const& wanted,
                   double allowed) {
  Shape const shape{static_cast<std::int64_t>(got.size())};
  require_close(TestTensor{ElementType::f64, shape, got}, wanted, allowed);
}

void require_close(Whole const& got, Whole const& wanted, double allowed) {
  require_close(got.output, wanted.output, allowed);
  require_close(got.grad_input, wanted.grad_input, allowed);
  REQUIRE(got.gradients.size() == wanted.gradients.size());
  for (std::size_t i = 0; i < got.gradients.size(); ++i) {
    CAPTURE(i);
    require_close(got.gradients[i], wanted.gradients[i], allowed);
  }
}

void require_same(Whole const& got, Whole const& wanted) {
  REQUIRE(got.output == wanted.output);
  REQUIRE(got.grad_input == wanted.grad_input);
  REQUIRE(got.gradients == wanted.gradients);
}

BlockShape shape_of(ModelConfig const& model, int tensor = 1, bool sequence = false) {
  return {.model = model, .tensor = tensor, .sequence_parallel = sequence, .micro = 2};
}

CpuKernelOptions const plain{.gemm = GemmKind::plain};

TEST_CASE("a layer over two tensor ranks computes what one rank does", "[kernels]") {
  bool const sequence = GENERATE(false, true);
  for (ModelConfig const& model : layer_models(Precision::fp64)) {
    require_close(run_layer(shape_of(model, 2, sequence), {}, {}),
                  run_layer(shape_of(model), {}, {}), 1e-12);
  }
}

TEST_CASE("a layer's gradients are finite differences of it", "[kernels]") {
  for (ModelConfig const& model : layer_models(Precision::fp64)) {
    BlockShape const shape = shape_of(model);
    BlockProgram const program = build_layers(shape, 1, {});
    LockstepRun lockstep{program, shape, plain};
    lockstep.run();
    std::vector<double> const weights = lockstep.whole_hidden(program.grad_output);
    auto const loss = [&](LockstepRun& at) {
      at.run(Pass::forward);
      double sum = 0;
      std::vector<double> const output = at.whole_hidden(program.output);
      for (std::size_t i = 0; i < output.size(); ++i) sum += output[i] * weights[i];
      return sum;
    };
    auto const require_differences = [&](TensorId varied, std::vector<double> const& gradient) {
      LockstepRun again{program, shape, plain};
      TestTensor& x = again.tensor(0, varied);
      // Five elements of each tensor.
      for (std::int64_t i = 0; i < x.size(); i += std::max<std::int64_t>(x.size() / 5, 1)) {
        double const value = x[i];
        double const step = 1e-4;
        x.set(i, value + step);
        double const above = loss(again);
        x.set(i, value - step);
        double const below = loss(again);
        x.set(i, value);
        CAPTURE(to_string(program.tensor(varied).name), i);
        REQUIRE(gradient[static_cast<std::size_t>(i)] ==
                Approx((above - below) / (2 * step)).margin(2e-6).epsilon(1e-6));
      }
    };
    require_differences(program.input, lockstep.whole_hidden(program.grad_input));
    for (std::size_t i = 0; i < program.parameters.size(); ++i) {
      require_differences(program.parameters[i].weight, lockstep.whole_gradient(i));
    }
  }
}

TEST_CASE("flash attention in a layer gives what unfused attention gives", "[kernels]") {
  ModelConfig model = small_model();
  model.kv_heads = 2;
  ModelConfig flash = model;
  flash.attention = Attention::flash;
  require_close(run_layer(shape_of(flash), {}, {}), run_layer(shape_of(model), {}, {}), 1e-12);
}

TEST_CASE("recompute and regenerated masks change no bit of a layer", "[kernels]") {
  auto const precision =
      GENERATE(Precision::fp64, Precision::fp32, Precision::bf16, Precision::fp16);
  for (ModelConfig const& model : layer_models(precision)) {
    Whole const stored = run_layer(shape_of(model), {}, plain);
    require_same(run_layer(shape_of(model), {.granularity = RecomputeGranularity::full}, plain),
                 stored);
    require_same(
        run_layer(shape_of(model), {.granularity = RecomputeGranularity::selective}, plain),
        stored);
    ModelConfig other = model;
    other.dropout_mask =
        model.dropout_mask == DropoutMask::stored ? DropoutMask::regenerated : DropoutMask::stored;
    require_same(run_layer(shape_of(other), {}, plain), stored);
  }
}

TEST_CASE("threads change no bit of a layer", "[kernels]") {
  auto const precision = GENERATE(Precision::fp32, Precision::fp16);
  for (ModelConfig model : layer_models(precision)) {
    // Large enough for several tasks of the pool.
    model.sequence = 96;
    model.hidden = 200;
    model.ffn_hidden = 300;
    Whole const one = run_layer(shape_of(model), {}, {.gemm = GemmKind::plain, .threads = 1});
    require_same(run_layer(shape_of(model), {}, {.gemm = GemmKind::plain, .threads = 3}), one);
  }
}

TEST_CASE("a layer in fewer bits is the layer in double, up to its rounding errors", "[kernels]") {
  auto const [precision, allowed] = GENERATE(table<Precision, double>(
      {{Precision::fp32, 1e-4}, {Precision::bf16, 0.25}, {Precision::fp16, 0.04}}));
  auto const gemm = GENERATE(GemmKind::openblas, GemmKind::plain);
  std::vector<ModelConfig> const models = layer_models(precision);
  std::vector<ModelConfig> const exact = layer_models(Precision::fp64);
  for (std::size_t i = 0; i < models.size(); ++i) {
    CAPTURE(i);
    require_close(run_layer(shape_of(models[i]), {}, {.gemm = gemm}),
                  run_layer(shape_of(exact[i]), {}, {}), allowed);
  }
}

TEST_CASE("every instruction set that this processor has computes the same layer", "[kernels]") {
  auto const instructions = GENERATE(InstructionSet::baseline, InstructionSet::x86_64_v3);
  if (kernel_table(instructions) == nullptr) return;
  auto const [precision, allowed] = GENERATE(table<Precision, double>({{Precision::fp64, 1e-12},
                                                                       {Precision::fp32, 1e-4},
                                                                       {Precision::bf16, 0.1},
                                                                       {Precision::fp16, 0.02}}));
  for (ModelConfig const& model : layer_models(precision)) {
    CpuKernelOptions options = plain;
    options.instructions = instructions;
    require_close(run_layer(shape_of(model), {}, options), run_layer(shape_of(model), {}, plain),
                  allowed);
  }
}

TEST_CASE("embedding and head over tensor ranks compute what one rank does", "[kernels]") {
  auto const [tensor, sequence] =
      GENERATE(table<int, bool>({{1, false}, {2, false}, {2, true}, {5, true}}));
  auto const positions = GENERATE(Positions::learned, Positions::rotary);
  ModelConfig model = small_model();
  model.positions = positions;
  model.heads = tensor * 2;
  // Padded to 40, 2 x 20 or 5 x 8: no further rows, so that gradients compare element by element.
  BlockShape const one = shape_of(model);
  BlockShape const many = shape_of(model, tensor, sequence);
  auto const gradients = [](LockstepRun const& lockstep, BlockProgram const& program) {
    std::vector<std::vector<double>> all;
    for (std::size_t i = 0; i < program.parameters.size(); ++i) {
      all.push_back(lockstep.whole_gradient(i));
    }
    return all;
  };
  auto const compare = [&](BlockProgram const& split, BlockProgram const& whole) {
    LockstepRun got{split, many, {}};
    LockstepRun wanted{whole, one, {}};
    got.run();
    wanted.run();
    for (auto const id : {&BlockProgram::output, &BlockProgram::grad_input}) {
      if (whole.*id == no_tensor) continue;
      require_close(got.whole_hidden(split.*id), wanted.whole_hidden(whole.*id), 1e-12);
    }
    auto const got_gradients = gradients(got, split);
    auto const wanted_gradients = gradients(wanted, whole);
    for (std::size_t i = 0; i < wanted_gradients.size(); ++i) {
      require_close(got_gradients[i], wanted_gradients[i], 1e-12);
    }
  };
  compare(build_embedding(many), build_embedding(one));
  compare(build_head(many, HeadWeight::own), build_head(one, HeadWeight::own));
}

TEST_CASE("a head in 16 bits widens and narrows its logits", "[kernels]") {
  auto const precision = GENERATE(Precision::bf16, Precision::fp16);
  BlockShape const shape = shape_of(small_model(precision));
  BlockShape const exact = shape_of(small_model());
  BlockProgram const program = build_head(shape, HeadWeight::own);
  BlockProgram const wide = build_head(exact, HeadWeight::own);
  LockstepRun got{program, shape, {}};
  LockstepRun wanted{wide, exact, {}};
  got.run();
  wanted.run();
  require_close(got.whole_hidden(program.grad_input), wanted.whole_hidden(wide.grad_input), 0.05);
}

TEST_CASE("kernels allocate nothing while they run", "[kernels]") {
  auto const precision = GENERATE(Precision::fp32, Precision::bf16);
  auto const attention = GENERATE(Attention::unfused, Attention::flash);
  auto const gemm = GENERATE(GemmKind::openblas, GemmKind::plain);
  ModelConfig model = small_model(precision);
  model.attention = attention;
  model.sequence = 200;
  model.kv_heads = 2;
  model.positions = Positions::rotary;
  BlockShape const shape{.model = model, .micro = 2};
  for (BlockProgram const& program :
       {build_embedding(shape), build_layers(shape, 1, {}), build_head(shape, HeadWeight::own)}) {
    LockstepRun lockstep{program, shape, {.gemm = gemm, .threads = 2}};
    lockstep.run();
    CHECK(lockstep.allocations() == 0);
  }
}

Bytes workspace(ElementType type, int threads) {
  return CpuKernels::workspace(std::array{type}, threads);
}

TEST_CASE("the workspace does not depend on the model, but on bits and threads", "[kernels]") {
  // 8 tiles of 64 x 256 elements per thread; 16 bits: at least blocks of 512 x 512, 512 x 1024
  // twice.
  CHECK(workspace(ElementType::f32, 1) == Bytes{8 * 64 * 256 * 4});
  CHECK(workspace(ElementType::f64, 3) == Bytes{3 * 8 * 64 * 256 * 8});
  CHECK(workspace(ElementType::bf16, 1) == Bytes{(512 * 512 + 2 * 512 * 1024) * 4});
  CHECK(workspace(ElementType::f16, 64) == Bytes{64 * 8 * 64 * 256 * 4});
  // Of several types, what the most demanding one takes.
  CHECK(CpuKernels::workspace(std::array{ElementType::f32, ElementType::f64}, 3) ==
        Bytes{3 * 8 * 64 * 256 * 8});
}

}  // namespace
}  // namespace stagecraft::test::block_program_test
