#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "libexec/backends/numbers.hpp"
#include "libexec/executor/executable.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/schedule/generators/generators.hpp"
#include "tests/libexec/executor/run_checks.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libsim/invented_system.hpp"

namespace stagecraft::experts_test {
namespace {

/// First a dense layer; scores by sigmoid, divided by their sum and scaled, as DeepSeek-V3 has
/// them.
TrainingConfig small_sigmoid(Precision precision) {
  TrainingConfig config = small_mixture(precision);
  config.model.experts->first_dense = 1;
  config.model.experts->router = {.score = RouterScore::sigmoid, .scaling = 2.5};
  return config;
}

/// A softmax over all experts, not divided by the sum of the chosen; GELU, no shared expert.
TrainingConfig small_softmax_before(Precision precision, bool normalise) {
  TrainingConfig config = small_gpt(precision);
  config.model.experts =
      ExpertsConfig{.count = 4,
                    .per_token = 2,
                    .ffn_hidden = 12,
                    .router = {.order = RouterOrder::before, .normalise = normalise}};
  return config;
}

/// As GPT-OSS has them: biases everywhere, sinks, a clamped SwiGLU, a window.
TrainingConfig small_gpt_oss_mixture(Precision precision) {
  TrainingConfig config = small_mixture(precision);
  config.model.experts->shared_ffn_hidden = 0;
  config.model.experts->biases = true;
  config.model.biases = true;
  config.model.attention = Attention::flash;
  config.model.sinks = true;
  config.model.window = 3;
  config.model.activation = Activation::swiglu_clamped;
  return config;
}

struct Layout {
  std::string name;
  ParallelLayout parallel;
  bool is_sharded = false;
};

std::vector<Layout> layouts() {
  return {{"d2", expert_layout(1, 1, 2, 1, 1)},
          {"d2 ep2", expert_layout(1, 1, 2, 2, 1)},
          {"d2 etp2", expert_layout(1, 1, 2, 1, 2)},
          {"d4 ep4", expert_layout(1, 1, 4, 4, 1)},
          {"d4 ep2", expert_layout(1, 1, 4, 2, 1)},
          {"d4 ep2 etp2", expert_layout(1, 1, 4, 2, 2)},
          {"t2", expert_layout(2, 1, 1, 1, 1)},
          {"t2 ep2", expert_layout(2, 1, 1, 2, 1)},
          {"t2 etp2", expert_layout(2, 1, 1, 1, 2)},
          {"t2 d2 ep4", expert_layout(2, 1, 2, 4, 1)},
          {"t2 d2 ep2 etp2", expert_layout(2, 1, 2, 2, 2)},
          {"t4 ep2", expert_layout(4, 1, 1, 2, 1)},
          {"p2 d2 ep2", expert_layout(1, 2, 2, 2, 1)},
          {"t2 d2 ep2 sharded", expert_layout(2, 1, 2, 2, 1), true},
          {"d4 ep2 sharded", expert_layout(1, 1, 4, 2, 1), true},
          {"t2 p2 d2 ep2 sharded", expert_layout(2, 2, 2, 2, 1), true},
          {"t2 ep1 sharded", expert_layout(2, 1, 1, 1, 1), true}};
}

/// Biases of experts that several ranks share are not built.
bool is_refused(TrainingConfig const& config, Layout const& layout) {
  return config.model.experts->biases && layout.parallel.expert_tensor > 1;
}

TrainingConfig with(TrainingConfig config, Layout const& layout) {
  config.parallel = layout.parallel;
  config.sharding = sharding_of(layout.is_sharded);
  return config;
}

/// The router decides. With a capacity of `count / per_token` no choice is dropped, with 1 some
/// are.
TrainingConfig routed(TrainingConfig config, double capacity) {
  config.routing.capacity = capacity;
  return config;
}

std::vector<RecomputePolicy> policies() {
  return {{},
          selective({"moe"}),
          selective({"moe_act"}),
          selective({"shared_experts"}),
          selective({"layernorm", "moe_act", "core_attention"}),
          {.granularity = RecomputeGranularity::full},
          {.granularity = RecomputeGranularity::full, .layers = 2}};
}

bool is_of_experts(std::string const& name) {
  return name.find("router") != std::string::npos || name.find("experts") != std::string::npos ||
         name.find("mlp_norm") != std::string::npos || name.find("sinks") != std::string::npos;
}

TEST_CASE("the gradients of routers and experts are slopes of the loss", "[experts][long]") {
  TrainingConfig config = GENERATE(
      small_mixture(Precision::fp64), small_sigmoid(Precision::fp64),
      small_softmax_before(Precision::fp64, true), small_softmax_before(Precision::fp64, false),
      routed(small_mixture(Precision::fp64), 1), routed(small_sigmoid(Precision::fp64), 1),
      routed(small_softmax_before(Precision::fp64, true), 1.25),
      routed(small_softmax_before(Precision::fp64, false), 2),
      small_gpt_oss_mixture(Precision::fp64), routed(small_gpt_oss_mixture(Precision::fp64), 1.25));
  config.model.layers = 2;
  int const least = 8 - (config.model.experts->first_dense == 1 ? 3 : 0);
  REQUIRE(require_slopes(config, is_of_experts) >= least);
}

TEST_CASE("experts on any number of ranks have the gradients of one rank", "[experts]") {
  for (TrainingConfig const& base :
       {small_mixture(Precision::fp64), small_sigmoid(Precision::fp64),
        routed(small_mixture(Precision::fp64), 2), routed(small_sigmoid(Precision::fp64), 2),
        small_gpt_oss_mixture(Precision::fp64),
        routed(small_gpt_oss_mixture(Precision::fp64), 2)}) {
    for (Layout const& layout : layouts()) {
      if (is_refused(base, layout)) continue;
      CAPTURE(layout.name, base.routing.is_balanced());
      require_close(base, with(base, layout), 1e-12);
    }
  }
}

TEST_CASE("steps on any number of ranks have loss and gradient norm of one rank", "[experts]") {
  TrainingConfig const base = small_mixture(Precision::fp64);
  for (Layout const& layout : layouts()) {
    CAPTURE(layout.name);
    require_alike_steps(base, with(base, layout));
  }
}

TEST_CASE("recomputed experts have the gradients of stored ones", "[experts]") {
  TrainingConfig base =
      with(GENERATE(small_mixture(Precision::fp64), small_gpt_oss_mixture(Precision::fp64)),
           {"", expert_layout(2, 1, 2, 2, 1)});
  if (GENERATE(false, true)) base = routed(base, 1.25);
  for (RecomputePolicy const& policy : policies()) {
    CAPTURE(name_of(policy.granularity), policy.modules);
    TrainingConfig again = base;
    again.recompute = {policy};
    require_close(base, again, 0);
  }
}

TEST_CASE("pairs of a forward and a backward have the bits of interleaved 1F1B", "[experts]") {
  TrainingConfig plain = with(small_mixture(Precision::fp64), {"", expert_layout(1, 2, 2, 2, 1)});
  plain.parallel.interleave = 2;
  plain.schedule = {.kind = ScheduleKind::interleaved, .p2p = P2p::overlapped};
  TrainingConfig paired = plain;
  paired.parallel.expert_overlap = true;
  paired.schedule.kind = ScheduleKind::order;
  paired.schedule.order =
      SharedOrder{expert_overlap_order(2, static_cast<int>(microbatches(plain)), 2, 2)};
  require_close(plain, paired, 0);
  Simulation const predicted = simulate(make_plan(as_settled(paired)), invented_system());
  for (RankReport const& rank : execute(paired, {.gemm = GemmKind::openblas}).ranks) {
    StageResult const& stage = predicted.stages[rank.stage.index()];
    REQUIRE(rank.activation_peak == stage.activation_peak);
    REQUIRE(rank.at_peak[Category::communication] == stage.at_peak[Category::communication]);
  }
}

TEST_CASE("sparse plans hold what the simulator predicts, to the byte", "[experts][long]") {
  int compared = 0;
  std::vector<RecomputePolicy> const all = policies();
  std::size_t turn = 0;
  for (Precision const precision : {Precision::bf16, Precision::fp32, Precision::fp64}) {
    for (TrainingConfig const& base :
         {small_mixture(precision), small_sigmoid(precision), small_softmax_before(precision, true),
          routed(small_mixture(precision), 1.25), routed(small_sigmoid(precision), 2),
          small_gpt_oss_mixture(precision), routed(small_gpt_oss_mixture(precision), 1.25)}) {
      for (Layout const& layout : layouts()) {
        if (is_refused(base, layout)) continue;
        TrainingConfig config = with(base, layout);
        config.recompute = {all[turn++ % all.size()]};
        CAPTURE(layout.name, name_of(config.recompute.front().granularity),
                config.recompute.front().modules);
        require_predicted_bytes(config);
        ++compared;
      }
    }
  }
  REQUIRE(compared >= 150);
}

TEST_CASE("training a mixture on a text lowers the loss, on several ranks alike", "[experts]") {
  require_learning(small_mixture(Precision::fp32), {expert_layout(2, 1, 2, 2, 2)});
}

TEST_CASE("plans that the executor cannot run yet are refused by key", "[executor]") {
  TrainingConfig config = small_mixture(Precision::bf16);
  REQUIRE_NOTHROW(require_executable(config));
  config.routing.capacity = 1.25;
  REQUIRE_NOTHROW(require_executable(config));
  config.routing = {.factor = 1.25};
  config.dispatch = Dispatch::allgather;
  REQUIRE_NOTHROW(require_executable(config));
  config.dispatch = Dispatch::deepep;
  REQUIRE_NOTHROW(require_executable(config));
  config.memory.gradient_dtype = StateType::bf16;
  REQUIRE_THROWS_WITH(require_executable(config),
                      Catch::Contains("memory.gradient_dtype: found 'bf16'; accepted when a "
                                      "plan is executed: fp32"));
  REQUIRE_THROWS_WITH(execute(config, {}), Catch::Contains("memory.gradient_dtype: found"));
}

}  // namespace
}  // namespace stagecraft::experts_test
