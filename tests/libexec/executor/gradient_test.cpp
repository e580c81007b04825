#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "libexec/backends/numbers.hpp"
#include "tests/libexec/executor/slope_checks.hpp"
#include "tests/libexec/executor/small_runs.hpp"

namespace stagecraft::gradient_test {
namespace {

/// Layers side by side, gated by GeLU, a QKV bias alone.
TrainingConfig small_falcon() {
  TrainingConfig config = small_llama(Precision::fp64);
  config.model.residual = Residual::parallel_one_norm;
  config.model.activation = Activation::geglu;
  config.model.qkv_bias = true;
  config.model.attention_dropout = 0.2;
  return config;
}

/// Two norms side by side, ReLU.
TrainingConfig small_neox() {
  TrainingConfig config = small_gpt(Precision::fp64);
  config.model.residual = Residual::parallel;
  config.model.activation = Activation::relu;
  return config;
}

TEST_CASE("every parameter's gradient is the slope of the loss, dropout on", "[gradients][long]") {
  TrainingConfig config =
      GENERATE(small_gpt(Precision::fp64), small_llama(Precision::fp64), small_falcon(),
               small_neox(), small_qwen3(Precision::fp64), small_olmo2(Precision::fp64),
               small_gemma2(Precision::fp64), small_gpt_oss(Precision::fp64),
               small_deepseek(Precision::fp64, 6), small_deepseek(Precision::fp64, 0));
  config.model.layers = 2;
  config.model.attention = GENERATE(Attention::unfused, Attention::flash);
  REQUIRE(config.model.dropout > 0);
  constexpr double step = 1e-4;
  std::vector<WholeTensor> const gradients = gradients_of(config);
  REQUIRE(gradients.size() >= 15);
  for (WholeTensor const& gradient : gradients) {
    CAPTURE(gradient.name);
    std::size_t const count = gradient.values.size();
    double largest = 0;
    for (double const value : gradient.values) largest = std::max(largest, std::abs(value));
    REQUIRE(largest > 1e-5);
    for (std::size_t const i : {std::size_t{0}, count / 3, 2 * count / 3, count - 1}) {
      CAPTURE(i);
      double const slope = (loss_beside(config, gradient.name, i, step) -
                            loss_beside(config, gradient.name, i, -step)) /
                           (2 * step);
      REQUIRE(gradient.values[i] ==
              Approx(slope).margin(1e-6 * std::max(1.0, largest)).epsilon(1e-6));
    }
  }
}

TEST_CASE("training on a text lowers the loss, on every layout alike", "[gradients]") {
  TrainingConfig config = small_gpt(Precision::fp32);
  config.model.vocabulary = 256;
  config.training.learning_rate = 3e-3;
  config.training.init_std = 0.02;
  auto const text =
      file_tokens(std::string{STAGECRAFT_SOURCE_DIR} + "/README.md", 256, config.model.sequence);
  SmallRun const run{.options = {.steps = 50}, .gemm = GemmKind::openblas, .tokens = text.get()};
  std::vector<StepReport> const one = execute(config, run).steps;
  REQUIRE(one.front().loss == Approx(std::log(256)).margin(0.1));
  REQUIRE(one.back().loss < one.front().loss - 1);
  config.parallel = {.tensor = 2, .pipeline = 2, .data = 2, .sequence = true};
  std::vector<StepReport> const eight = execute(config, run).steps;
  for (std::size_t i = 0; i < one.size(); ++i) {
    REQUIRE(eight[i].loss == Approx(one[i].loss).epsilon(1e-3));
  }
}

}  // namespace
}  // namespace stagecraft::gradient_test
