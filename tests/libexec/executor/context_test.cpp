#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/plan/training_config_checks.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libsim/invented_system.hpp"

namespace stagecraft {
namespace {

/// Flash attention without a dropout of its own: what sequences can be split with.
TrainingConfig splittable(TrainingConfig config) {
  config.model.attention = Attention::flash;
  config.model.attention_dropout = 0;
  for (LayerRun& run : config.model.pattern) {
    run.kind.attention = Attention::flash;
    run.kind.attention_dropout = 0;
  }
  config.model.kv_heads = 4;
  return config;
}

/// Learned positions, biases, tied embeddings, dropout of hidden states.
TrainingConfig gpt_of(Precision precision) { return splittable(small_gpt(precision)); }
/// Rotary positions, two key and value heads of four.
TrainingConfig llama_of(Precision precision) {
  TrainingConfig config = splittable(small_llama(precision));
  config.model.kv_heads = 2;
  return config;
}

struct Layout {
  std::string name;
  ParallelLayout parallel;
  bool is_sharded = false;
  ScheduleConfig schedule{};
};

ParallelLayout of(int t, int c, int p, int d) {
  return {.tensor = t,
          .pipeline = p,
          .data = d,
          .sequence = t > 1,
          .context = c,
          .context_method = ContextMethod::ulysses};
}

std::vector<Layout> layouts() {
  ParallelLayout chunked = of(1, 2, 2, 1);
  chunked.interleave = 2;
  ParallelLayout whole_rows = of(2, 2, 1, 1);
  whole_rows.sequence = false;
  return {{"c2", of(1, 2, 1, 1)},
          {"c4", of(1, 4, 1, 1)},
          {"t2 c2", of(2, 2, 1, 1)},
          {"t2 c2, whole rows", whole_rows},
          {"c2 p2", of(1, 2, 2, 1)},
          {"c2 d2", of(1, 2, 1, 2)},
          {"t2 c2 p2 d2", of(2, 2, 2, 2)},
          {"c2 sharded", of(1, 2, 1, 1), true},
          {"c2 d2 sharded", of(1, 2, 1, 2), true},
          {"t2 c2 p2 d2 sharded", of(2, 2, 2, 2), true},
          {"c2 p2 interleaved", chunked, false, {.kind = ScheduleKind::interleaved}}};
}

TrainingConfig with(TrainingConfig config, Layout const& layout) {
  config.parallel = layout.parallel;
  config.memory.distributed_optimizer = layout.is_sharded;
  config.schedule = layout.schedule;
  return config;
}

/// Whether the model has heads enough.
bool fits(TrainingConfig const& config) { return problems_of(completed(config)).empty(); }

RecomputePolicy selective(std::vector<std::string> modules) {
  return {.granularity = RecomputeGranularity::selective, .modules = std::move(modules)};
}

std::vector<RecomputePolicy> policies() {
  return {{},
          selective({"core_attention"}),
          selective({"layernorm", "mlp"}),
          {.granularity = RecomputeGranularity::full},
          {.granularity = RecomputeGranularity::full, .layers = 2}};
}

void require_close(TrainingConfig const& a, TrainingConfig const& b, double tolerance) {
  std::vector<WholeTensor> const x = gradients_of(a);
  std::vector<WholeTensor> const y = gradients_of(b);
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i].name);
    REQUIRE(x[i].name == y[i].name);
    REQUIRE(x[i].values.size() == y[i].values.size());
    double difference = 0;
    double norm = 0;
    for (std::size_t j = 0; j < x[i].values.size(); ++j) {
      difference += std::pow(x[i].values[j] - y[i].values[j], 2);
      norm += std::pow(x[i].values[j], 2);
    }
    REQUIRE(norm > 0);
    REQUIRE(std::sqrt(difference) <= tolerance * std::sqrt(norm));
  }
}

TEST_CASE("ranks that split sequences have the gradients of one rank", "[context]") {
  Precision const fp64 = Precision::fp64;
  int compared = 0;
  for (TrainingConfig const& base :
       {gpt_of(fp64), llama_of(fp64), splittable(small_qwen3(fp64)), splittable(small_olmo2(fp64)),
        splittable(small_gemma2(fp64))}) {
    for (Layout const& layout : layouts()) {
      TrainingConfig const config = with(base, layout);
      if (!fits(config)) continue;
      CAPTURE(layout.name, base.model.kv_heads, name_of(base.model.qk_norm));
      require_close(base, config, 1e-12);
      ++compared;
    }
  }
  REQUIRE(compared >= 40);
}

TEST_CASE("ranks that split sequences have loss and gradient norm of one rank", "[context]") {
  TrainingConfig const base = gpt_of(Precision::fp64);
  SmallRun const run{.options = {.steps = 3}};
  std::vector<StepReport> const one = execute(base, run).steps;
  for (Layout const& layout : layouts()) {
    CAPTURE(layout.name);
    std::vector<StepReport> const many = execute(with(base, layout), run).steps;
    for (std::size_t i = 0; i < one.size(); ++i) {
      REQUIRE(many[i].loss == Approx(one[i].loss).epsilon(1e-12));
      REQUIRE(many[i].gradient_norm == Approx(one[i].gradient_norm).epsilon(1e-11));
    }
  }
}

TEST_CASE("recomputed attention over ranks that split sequences has the same gradients",
          "[context]") {
  for (TrainingConfig const& model : {gpt_of(Precision::fp64), llama_of(Precision::fp64)}) {
    TrainingConfig const base = with(model, {"", of(1, 2, 1, 2)});
    for (RecomputePolicy const& policy : policies()) {
      CAPTURE(name_of(policy.granularity), policy.modules);
      TrainingConfig again = base;
      again.recompute = {policy};
      require_close(base, again, 0);
    }
  }
}

TEST_CASE("a split backward over ranks that split sequences has the same gradients", "[context]") {
  TrainingConfig const base = llama_of(Precision::fp64);
  TrainingConfig split = with(base, {"", of(1, 2, 2, 1)});
  split.schedule = {.kind = ScheduleKind::zb_h1, .p2p = P2p::overlapped};
  REQUIRE(fits(split));
  require_close(base, split, 1e-12);
}

TEST_CASE("plans that split sequences hold what the simulator predicts, to the byte", "[context]") {
  int compared = 0;
  std::vector<RecomputePolicy> const all = policies();
  std::size_t turn = 0;
  for (Precision const precision :
       {Precision::bf16, Precision::fp16, Precision::fp32, Precision::fp64}) {
    for (TrainingConfig const& base :
         {gpt_of(precision), llama_of(precision), splittable(small_qwen3(precision)),
          splittable(small_gemma2(precision))}) {
      for (Layout const& layout : layouts()) {
        TrainingConfig config = with(base, layout);
        config.recompute = {all[turn++ % all.size()]};
        if (!fits(config)) continue;
        CAPTURE(layout.name, name_of(config.recompute.front().granularity),
                config.recompute.front().modules);
        Simulation const predicted = simulate(make_plan(completed(config)), invented_system());
        for (RankReport const& rank : execute(config, {.gemm = GemmKind::openblas}).ranks) {
          StageResult const& stage = predicted.stages[static_cast<std::size_t>(rank.stage)];
          for (int i = 0; i < category_count; ++i) {
            auto const category = static_cast<Category>(i);
            CAPTURE(name_of(category));
            if (category == Category::workspace) continue;
            CHECK(rank.at_peak[category] == stage.at_peak[category]);
          }
          CHECK(rank.activation_peak == stage.activation_peak);
        }
        ++compared;
      }
    }
  }
  REQUIRE(compared >= 120);
}

TEST_CASE("training with split sequences lowers the loss as one rank does", "[context]") {
  TrainingConfig config = llama_of(Precision::fp32);
  config.model.vocabulary = 256;
  config.training.learning_rate = 3e-3;
  config.training.init_std = 0.02;
  auto const text =
      file_tokens(std::string{STAGECRAFT_SOURCE_DIR} + "/README.md", 256, config.model.sequence);
  SmallRun const run{.options = {.steps = 50}, .gemm = GemmKind::openblas, .tokens = text.get()};
  std::vector<StepReport> const one = execute(config, run).steps;
  REQUIRE(one.back().loss < one.front().loss - 1);
  std::vector<StepReport> const four = execute(with(config, {"", of(1, 2, 1, 2)}), run).steps;
  for (std::size_t i = 0; i < one.size(); ++i) {
    REQUIRE(four[i].loss == Approx(one[i].loss).epsilon(1e-3));
  }
}

}  // namespace
}  // namespace stagecraft
