#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "libsim/memory/rank_memory.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/training/training_names.hpp"
#include "tests/libexec/executor/run_checks.hpp"
#include "tests/libexec/executor/small_runs.hpp"

namespace stagecraft::experts_variants_test {
namespace {

/// As Qwen2-MoE has them: a gate on shared experts, a softmax over all experts.
TrainingConfig gated(Precision precision) {
  TrainingConfig config = small_llama(precision);
  config.model.experts =
      ExpertsConfig{.count = 4,
                    .per_token = 2,
                    .ffn_hidden = 12,
                    .shared_ffn_hidden = 8,
                    .shared_gate = true,
                    .router = {.order = RouterOrder::before, .normalise = false}};
  return config;
}

/// Biases, ReLU and several choices beside probabilities on the input.
TrainingConfig biased_on_input(Precision precision) {
  TrainingConfig config = small_gpt(precision);
  config.model.activation = Activation::relu;
  config.model.experts = ExpertsConfig{.count = 4,
                                       .per_token = 2,
                                       .ffn_hidden = 12,
                                       .probabilities_on = ProbabilitiesOn::input,
                                       .biases = true};
  return config;
}

/// Biases, GELU, and probabilities that a kernel of their own multiplies with.
TrainingConfig weighted_apart(Precision precision) {
  TrainingConfig config = small_gpt(precision);
  config.model.experts = ExpertsConfig{
      .count = 4, .per_token = 2, .ffn_hidden = 12, .biases = true, .fused_weighting = false};
  return config;
}

/// Both losses of a router, of which one counts the choices in each sequence apart.
TrainingConfig even(Precision precision, RouterLoss loss, RouterScore score) {
  TrainingConfig config = small_llama(precision);
  config.model.experts = ExpertsConfig{.count = 4,
                                       .per_token = 2,
                                       .ffn_hidden = 12,
                                       .router = {.score = score,
                                                  .order = RouterOrder::before,
                                                  .loss = loss,
                                                  .loss_coefficient = 0.3,
                                                  .z_loss = 0.02}};
  return config;
}

std::vector<TrainingConfig> variants(Precision precision) {
  return {gated(precision),
          mixture_on_input(precision),
          biased_on_input(precision),
          weighted_apart(precision),
          even(precision, RouterLoss::auxiliary, RouterScore::softmax),
          even(precision, RouterLoss::sequence_auxiliary, RouterScore::sigmoid)};
}

std::vector<TrainingConfig> layouts_of_experts(TrainingConfig const& base) {
  std::vector<TrainingConfig> configs;
  for (ParallelLayout const& layout :
       {expert_layout(1, 1, 2, 2, 1), expert_layout(2, 1, 1, 2, 1), expert_layout(2, 1, 2, 2, 2),
        expert_layout(4, 1, 1, 4, 1), expert_layout(2, 2, 2, 4, 1)}) {
    if (base.model.experts->biases && layout.expert_tensor > 1) continue;  // refused
    for (Dispatch const dispatch : {Dispatch::alltoall, Dispatch::allgather, Dispatch::deepep}) {
      if (dispatch != Dispatch::alltoall && layout.expert_tensor == 1) continue;
      configs.push_back(base);
      configs.back().parallel = layout;
      configs.back().dispatch = dispatch;
      configs.back().sharding = sharding_of(layout.data > 1);
    }
  }
  return configs;
}

std::vector<RecomputePolicy> policies_of_experts() {
  auto const selective = [](std::vector<std::string> modules) {
    return RecomputePolicy{.granularity = RecomputeGranularity::selective,
                           .modules = std::move(modules)};
  };
  return {{},
          selective({"moe"}),
          selective({"moe_act", "shared_experts"}),
          selective({"layernorm", "mlp"}),
          {.granularity = RecomputeGranularity::full}};
}

bool is_of_experts_or_router(std::string const& name) {
  return name.find("router") != std::string::npos || name.find("experts") != std::string::npos ||
         name.find("mlp_norm") != std::string::npos;
}

TEST_CASE("gates, probabilities on the input and losses of routers have slopes of the loss",
          "[experts]") {
  for (TrainingConfig config : variants(Precision::fp64)) {
    config.model.layers = 2;
    config.batch.global = 2;
    CAPTURE(config.model.experts->shared_gate, name_of(config.model.experts->router.loss));
    REQUIRE(require_slopes(config, is_of_experts_or_router) >= 7);
  }
  // The router decides, and drops choices.
  TrainingConfig config = even(Precision::fp64, RouterLoss::auxiliary, RouterScore::sigmoid);
  config.model.layers = 2;
  config.batch.global = 2;
  config.routing.capacity = 1;
  REQUIRE(require_slopes(config, is_of_experts_or_router) >= 7);
}

TEST_CASE("variants of experts have the gradients and the loss of one rank on several",
          "[experts]") {
  for (TrainingConfig const& base : variants(Precision::fp64)) {
    double const loss = execute(base).steps.front().loss;
    for (TrainingConfig const& config : layouts_of_experts(base)) {
      CAPTURE(config.parallel.tensor, config.parallel.data, config.parallel.expert,
              name_of(config.dispatch));
      require_close(base, config, 1e-12);
      REQUIRE(execute(config).steps.front().loss == Approx(loss).epsilon(1e-13));
    }
  }
}

TEST_CASE("recomputed variants of experts have the gradients of stored ones", "[experts]") {
  for (TrainingConfig base : variants(Precision::fp64)) {
    base.parallel = expert_layout(2, 1, 1, 2, 1);
    double const loss = execute(base).steps.front().loss;
    for (RecomputePolicy const& policy : policies_of_experts()) {
      CAPTURE(policy.modules);
      TrainingConfig again = base;
      again.recompute = {policy};
      require_close(base, again, 0);
      REQUIRE(execute(again).steps.front().loss == loss);
    }
  }
}

TEST_CASE("variants of experts hold what the simulator predicts, to the byte", "[experts]") {
  std::vector<RecomputePolicy> const policies = policies_of_experts();
  std::size_t turn = 0;
  for (Precision const precision : {Precision::bf16, Precision::fp64}) {
    for (TrainingConfig const& base : variants(precision)) {
      for (TrainingConfig config : layouts_of_experts(base)) {
        config.recompute = {policies[turn++ % policies.size()]};
        require_predicted_bytes(config);
      }
    }
  }
  REQUIRE(turn >= 40);
}

/// A router of 2 experts that sends every token to the first has E / (k N^2) N p_0 N = 2 p_0.
/// Source: Megatron-LM, moe_utils.py: switch_load_balancing_loss_func.
TEST_CASE("the losses of routers are those of the formulas", "[experts]") {
  TrainingConfig config = small_llama(Precision::fp64);
  config.model.layers = 1;
  config.model.dropout = 0;
  config.training.init_std = 0;  // all logits are zero: experts have equal shares, choices are 0
  config.model.experts = ExpertsConfig{.count = 2, .per_token = 1, .ffn_hidden = 12};
  double const bare = execute(config).steps.front().loss;
  config.model.experts->router.loss = RouterLoss::auxiliary;
  config.model.experts->router.loss_coefficient = 0.25;
  REQUIRE(execute(config).steps.front().loss - bare == Approx(0.25 * 2 * 0.5).epsilon(1e-12));
  config.model.experts->router.loss = RouterLoss::sequence_auxiliary;
  REQUIRE(execute(config).steps.front().loss - bare == Approx(0.25 * 2 * 0.5).epsilon(1e-12));
  config.model.experts->router.loss = RouterLoss::none;
  config.model.experts->router.z_loss = 0.5;
  REQUIRE(execute(config).steps.front().next_token_loss == bare);
  double const square = std::pow(std::log(2.0), 2);
  REQUIRE(execute(config).steps.front().loss - bare == Approx(0.5 * square).epsilon(1e-12));
}

// Shared experts that compute while tokens travel to the routed ones and back.

/// A layer of 4 experts, of which a token uses 2, beside one shared expert.
TrainingConfig small_mixture(Precision precision, bool has_gate) {
  TrainingConfig config = small_llama(precision);
  config.model.experts = ExpertsConfig{.count = 4,
                                       .per_token = 2,
                                       .ffn_hidden = 12,
                                       .shared_ffn_hidden = 8,
                                       .shared_gate = has_gate};
  return config;
}

struct Layout {
  std::string name;
  ParallelLayout parallel;
};

std::vector<Layout> layouts() {
  return {{"d2, no exchange", expert_layout(1, 1, 2, 1, 1)},
          {"d2 ep2", expert_layout(1, 1, 2, 2, 1)},
          {"d4 ep4", expert_layout(1, 1, 4, 4, 1)},
          {"d4 ep2 etp2", expert_layout(1, 1, 4, 2, 2)},
          {"t2 ep2", expert_layout(2, 1, 1, 2, 1)},
          {"t2 etp2, no exchange", expert_layout(2, 1, 1, 1, 2)},
          {"t2 d2 ep4", expert_layout(2, 1, 2, 4, 1)},
          {"t2 d2 ep2 etp2", expert_layout(2, 1, 2, 2, 2)},
          {"t2 p2 d2 ep2", expert_layout(2, 2, 2, 2, 1)}};
}

/// Balanced, as many as a router chooses up to a limit, and counts that differ from rank to rank.
std::vector<Routing> routings() {
  CountsFile file{"counts.csv",
                  {{0, every_microbatch, {16, 9, 4, 3}},
                   {1, every_microbatch, {0, 16, 0, 16}},
                   {2, every_microbatch, {8, 8, 8, 8}},
                   {3, every_microbatch, {1, 2, 15, 14}}}};
  return {{}, {.capacity = 1.25}, {.counts = SharedCounts{std::move(file)}}};
}

std::vector<RecomputePolicy> policies() {
  return {{},
          selective({"moe"}),
          selective({"moe_act"}),
          selective({"layernorm", "core_attention"}),
          {.granularity = RecomputeGranularity::full},
          {.granularity = RecomputeGranularity::full, .layers = 2}};
}

TrainingConfig with(TrainingConfig config, Layout const& layout, bool overlaps) {
  config.parallel = layout.parallel;
  config.parallel.shared_expert_overlap = overlaps;
  return config;
}

TEST_CASE("shared experts beside exchanges have the bits of those before them", "[experts]") {
  for (bool const has_gate : {false, true}) {
    for (Routing const& routing : routings()) {
      TrainingConfig base = small_mixture(Precision::fp64, has_gate);
      base.routing = routing;
      for (Layout const& layout : layouts()) {
        CAPTURE(layout.name, has_gate, routing.is_balanced());
        require_close(with(base, layout, false), with(base, layout, true), 0);
      }
    }
  }
}

TEST_CASE("recomputed layers with shared experts beside exchanges have the same bits",
          "[experts]") {
  TrainingConfig const base =
      with(small_mixture(Precision::fp64, true), {"", expert_layout(2, 1, 2, 2, 1)}, true);
  for (RecomputePolicy const& policy : policies()) {
    CAPTURE(name_of(policy.granularity), policy.modules);
    TrainingConfig again = base;
    again.recompute = {policy};
    require_close(base, again, 0);
  }
}

TEST_CASE("a split backward with shared experts beside exchanges has the same gradients",
          "[experts]") {
  TrainingConfig const base =
      with(small_mixture(Precision::fp64, false), {"", expert_layout(1, 2, 2, 2, 1)}, true);
  TrainingConfig split = base;
  split.schedule = {.kind = ScheduleKind::zb_h1, .p2p = P2p::overlapped};
  require_close(base, split, 1e-12);
}

/// Of each rank, as its plan is its own if rows are uneven.
void require_bytes_of_ranks(TrainingConfig const& config) {
  TrainingPlan const plan = make_plan(as_settled(completed(config)));
  for (RankReport const& rank : execute(config, {.gemm = GemmKind::openblas}).ranks) {
    int const number = plan.groups.at_stage(rank.rank, StageId{0}).value();
    RankPrograms const own{plan, number};
    StageMemory const memory = peak_memory({plan, plan.stages[rank.stage], *own});
    for (int i = 0; i < category_count; ++i) {
      auto const category = static_cast<Category>(i);
      CAPTURE(name_of(category));
      if (category == Category::workspace) continue;
      CHECK(rank.at_peak[category] == memory.at_peak[category]);
    }
    CHECK(rank.activation_peak == memory.activation_peak);
  }
}

TEST_CASE("plans with shared experts beside exchanges hold what is predicted, to the byte",
          "[experts]") {
  std::vector<RecomputePolicy> const all = policies();
  std::size_t turn = 0;
  for (Precision const precision : {Precision::bf16, Precision::fp32}) {
    for (Routing const& routing : routings()) {
      TrainingConfig base = small_mixture(precision, turn % 2 == 0);
      base.routing = routing;
      for (Layout const& layout : layouts()) {
        TrainingConfig config = with(base, layout, true);
        config.recompute = {all[turn++ % all.size()]};
        CAPTURE(layout.name, routing.is_balanced(), config.recompute.front().modules);
        require_bytes_of_ranks(config);
      }
    }
  }
}

}  // namespace

}  // namespace stagecraft::experts_variants_test
