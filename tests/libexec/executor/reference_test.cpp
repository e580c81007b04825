#include <catch2/catch.hpp>
#include <functional>

#include "tests/libexec/executor/reference_comparison.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libexec/reference/reference_training.hpp"

/// The executor against PyTorch: tests/libexec/reference/make_reference.py.
namespace stagecraft::reference_test {
namespace {

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

}  // namespace
}  // namespace stagecraft::reference_test
