#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "libexec/backends/numbers.hpp"
#include "libsim/import/huggingface/huggingface_import.hpp"
#include "tests/libexec/executor/reference_comparison.hpp"
#include "tests/libexec/executor/run_checks.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libexec/reference/reference_training.hpp"

namespace stagecraft::reference_test {
namespace {

// The executor against PyTorch: tests/libexec/reference/make_reference.py.

struct NamedLayout {
  std::string name;
  ParallelLayout layout;
  bool distributed_optimizer = false;
};

std::vector<NamedLayout> layouts() {
  return {{"one rank", {}},
          {"t 2", {.tensor = 2}},
          {"t 2 sequence", {.tensor = 2, .sequence = true}},
          {"p 2", {.pipeline = 2}},
          {"d 2 distributed", {.data = 2}, true},
          {"t 2 p 2 d 2 sequence distributed",
           {.tensor = 2, .pipeline = 2, .data = 2, .sequence = true},
           true}};
}

std::string variant() {
  return GENERATE(as<std::string>{}, "gpt", "gpt_dropout", "gpt_untied", "llama", "llama_dropout");
}

/// Runs the first step, and then all of them again with clipping, against the reference.
void compare(ReferenceTraining const& reference, TrainingConfig const& config, GemmKind gemm) {
  ReferenceTokens const tokens{reference.sequences};
  LogitsObserver observer{config};
  std::vector<StepReport> reports;
  SmallRun run{.gemm = gemm, .tokens = &tokens};
  run.options.before_first = start_from(reference.parameters);
  run.options.on_step = [&](StepReport const& report) { reports.push_back(report); };

  SmallRun first = run;
  first.options.on_op = std::ref(observer);
  require_same(gradients_of(config, first), reference.gradients);
  require_same("logits", observer.logits(), reference.logits);
  require_same("loss", {reports.at(0).loss}, {reference.steps.at(0).loss});

  reports.clear();
  auto const count = static_cast<int>(reference.steps.size());
  require_same(parameters_after(config, count, run), reference.parameters_after);
  for (std::size_t i = 0; i < reference.steps.size(); ++i) {
    CAPTURE(i);
    require_same("loss", {reports.at(i).loss}, {reference.steps[i].loss});
    require_same("norm", {reports.at(i).gradient_norm}, {reference.steps[i].gradient_norm});
  }
}

TEST_CASE("loss, logits, gradients and three updates are PyTorch's, on every layout",
          "[reference]") {
  std::string const name = variant();
  CAPTURE(name);
  ReferenceTraining const reference = read_reference(name);
  REQUIRE(reference.steps.size() == 3);
  for (Attention const attention : {Attention::unfused, Attention::flash}) {
    for (NamedLayout const& layout : layouts()) {
      CAPTURE(attention == Attention::flash, layout.name);
      TrainingConfig config = reference.config;
      config.model.attention = attention;
      config.parallel = layout.layout;
      config.sharding = sharding_of(layout.distributed_optimizer);
      compare(reference, config, GemmKind::plain);
    }
  }
}

TEST_CASE("products through BLAS lead to PyTorch's numbers too", "[reference]") {
  std::string const name = variant();
  CAPTURE(name);
  ReferenceTraining const reference = read_reference(name);
  compare(reference, reference.config, GemmKind::openblas);
}

// The executor against Hugging Face's classes: tests/libexec/reference/make_huggingface.py.

/// One iteration of a small model.
struct HuggingfaceRun {
  TrainingConfig config;  ///< on one rank; its model is what the importer makes of config.json
  std::vector<std::vector<std::int64_t>> sequences;
  NamedTensors parameters;
  double loss = 0;
  std::vector<double> logits;
  NamedTensors gradients;
};

HuggingfaceRun read_run(std::string const& name) {
  std::ifstream file{STAGECRAFT_SOURCE_DIR "/tests/libexec/reference/" + name + ".json"};
  auto const from = nlohmann::json::parse(file);
  HuggingfaceRun run;
  HuggingfaceOptions const options{.precision = Precision::fp64};
  run.config.model = parse_huggingface(from.at("huggingface").dump(), name, options).model;
  run.config.model.vocabulary_multiple = 2;
  from.at("batch").at("global").get_to(run.config.batch.global);
  from.at("batch").at("micro").get_to(run.config.batch.micro);
  from.at("sequences").get_to(run.sequences);
  from.at("parameters").get_to(run.parameters);
  from.at("loss").get_to(run.loss);
  from.at("logits").get_to(run.logits);
  from.at("gradients").get_to(run.gradients);
  // The router chooses, and no expert drops a token.
  ExpertsConfig const& experts = *run.config.model.experts;
  run.config.routing.capacity =
      static_cast<double>(experts.count) / static_cast<double>(experts.per_token);
  return run;
}

std::vector<ParallelLayout> layouts_of_mixtures() {
  return {{},
          {.data = 2, .expert = 2},
          {.tensor = 2, .sequence = true, .expert = 2},
          {.tensor = 2, .pipeline = 2, .sequence = true, .expert_tensor = 2},
          {.tensor = 2, .pipeline = 2, .data = 2, .sequence = true, .expert = 4}};
}

TEST_CASE("loss, logits and gradients of mixtures are Hugging Face's, on every layout",
          "[reference]") {
  std::string const name = GENERATE(as<std::string>{}, "mixtral", "qwen2_moe", "qwen3_moe", "olmoe",
                                    "granitemoe", "deepseek_v3", "gpt_oss", "llama4");
  CAPTURE(name);
  HuggingfaceRun const theirs = read_run(name);
  ReferenceTokens const tokens{theirs.sequences};
  for (ParallelLayout const& layout : layouts_of_mixtures()) {
    // The mean of a norm over all heads cannot be cut.
    if (layout.tensor > 1 && theirs.config.model.qk_norm == QkNorm::full) continue;
    if (layout.expert_tensor > 1 && theirs.config.model.experts->biases) continue;  // refused
    CAPTURE(layout.tensor, layout.pipeline, layout.data, layout.expert, layout.expert_tensor);
    TrainingConfig config = theirs.config;
    config.parallel = layout;
    LogitsObserver observer{config};
    double loss = 0;
    SmallRun run{.tokens = &tokens};
    run.options.before_first = start_from(theirs.parameters);
    run.options.on_op = std::ref(observer);
    run.options.on_step = [&](StepReport const& report) { loss = report.loss; };
    require_same(gradients_of(config, run), theirs.gradients);
    require_same("logits", observer.logits(), theirs.logits);
    require_same("loss", {loss}, {theirs.loss});
  }
}

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
  REQUIRE(require_slopes(config, [](std::string const&) { return true; }) >= 15);
}

TEST_CASE("training on a text lowers the loss, on every layout alike", "[gradients]") {
  double const first = require_learning(
      small_gpt(Precision::fp32), {{.tensor = 2, .pipeline = 2, .data = 2, .sequence = true}});
  REQUIRE(first == Approx(std::log(256)).margin(0.1));
}

}  // namespace
}  // namespace stagecraft::reference_test
