#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "libsim/memory/rank_memory.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libexec/executor/equal_runs.hpp"
#include "tests/libexec/executor/small_runs.hpp"

/// Shared experts that compute while tokens travel to the routed ones and back.
namespace stagecraft::shared_overlap_test {
namespace {

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
}  // namespace stagecraft::shared_overlap_test
