#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "libsim/import/huggingface/huggingface_import.hpp"
#include "tests/libexec/executor/reference_comparison.hpp"
#include "tests/libexec/executor/small_runs.hpp"

/// The executor against Hugging Face's classes: tests/libexec/reference/make_huggingface.py.
namespace stagecraft::huggingface_test {
namespace {

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

std::vector<ParallelLayout> layouts() {
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
  for (ParallelLayout const& layout : layouts()) {
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

}  // namespace
}  // namespace stagecraft::huggingface_test
