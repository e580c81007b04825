#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/training/training_config_checks.hpp"
#include "libsim/training/training_names.hpp"
#include "tests/libexec/executor/run_checks.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libsim/invented_system.hpp"

namespace stagecraft::context_test {
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

/// Latent attention, with heads of keys of 6 and of values of 5 elements.
TrainingConfig deepseek_of(Precision precision) { return splittable(small_deepseek(precision, 6)); }
TrainingConfig mixture_of(Precision precision) { return splittable(small_mixture(precision)); }

struct Layout {
  std::string name;
  ParallelLayout parallel;
  bool is_sharded = false;
  ScheduleConfig schedule{};
};

ParallelLayout of(int t, int c, int p, int d, ContextMethod method = ContextMethod::ulysses) {
  return {.tensor = t,
          .pipeline = p,
          .data = d,
          .sequence = t > 1,
          .context = c,
          .context_method = method};
}

std::vector<Layout> layouts_of(ContextMethod method) {
  auto const with_method = [&](int t, int c, int p, int d) { return of(t, c, p, d, method); };
  ParallelLayout chunked = with_method(1, 2, 2, 1);
  chunked.interleave = 2;
  ParallelLayout whole_rows = with_method(2, 2, 1, 1);
  whole_rows.sequence = false;
  return {{"c2", with_method(1, 2, 1, 1)},
          {"c4", with_method(1, 4, 1, 1)},
          {"t2 c2", with_method(2, 2, 1, 1)},
          {"t2 c2, whole rows", whole_rows},
          {"c2 p2", with_method(1, 2, 2, 1)},
          {"c2 d2", with_method(1, 2, 1, 2)},
          {"t2 c2 p2 d2", with_method(2, 2, 2, 2)},
          {"c2 sharded", with_method(1, 2, 1, 1), true},
          {"c2 d2 sharded", with_method(1, 2, 1, 2), true},
          {"t2 c2 p2 d2 sharded", with_method(2, 2, 2, 2), true},
          {"c2 p2 interleaved", chunked, false, {.kind = ScheduleKind::interleaved}}};
}

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (auto const& [method, name] : EnumNames<ContextMethod>::all) {
    for (Layout layout : layouts_of(method)) {
      layout.name = std::string{name} + " " + layout.name;
      all.push_back(layout);
    }
  }
  ParallelLayout two_levels = of(1, 4, 1, 1, ContextMethod::ring);
  two_levels.context_inner = 2;
  all.push_back({"two levels c4", two_levels});
  two_levels.data = 2;
  all.push_back({"two levels c4 d2, sharded", two_levels, true});
  return all;
}

TrainingConfig with(TrainingConfig config, Layout const& layout) {
  config.parallel = layout.parallel;
  config.sharding = sharding_of(layout.is_sharded);
  config.schedule = layout.schedule;
  return config;
}

/// Whether the model has heads enough.
bool fits(TrainingConfig const& config) { return problems_of(completed(config)).empty(); }

std::vector<RecomputePolicy> policies() {
  return {{},
          selective({"core_attention"}),
          selective({"layernorm", "mlp"}),
          {.granularity = RecomputeGranularity::full},
          {.granularity = RecomputeGranularity::full, .layers = 2}};
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
  REQUIRE(compared >= 165);
}

TEST_CASE("ranks that split sequences and hold latents have the gradients of one rank",
          "[context]") {
  TrainingConfig const base = deepseek_of(Precision::fp64);
  int compared = 0;
  for (Layout const& layout : layouts()) {
    TrainingConfig const config = with(base, layout);
    if (!fits(config)) continue;
    CAPTURE(layout.name);
    require_close(base, config, 1e-12);
    ++compared;
  }
  REQUIRE(compared >= 36);
}

/// The experts of a layer split over tensor, context and data ranks.
std::vector<Layout> layouts_of_experts() {
  std::vector<Layout> all;
  for (auto const& [method, name] : EnumNames<ContextMethod>::all) {
    for (int const expert : {1, 2, 4}) {
      ParallelLayout layout = of(1, 2, 1, 2, method);
      layout.expert = expert;
      std::string const text = std::string{name} + " c2 d2 ep" + std::to_string(expert);
      all.push_back({text, layout});
      all.push_back({text + " sharded", layout, true});
    }
    ParallelLayout both = of(2, 2, 1, 1, method);
    both.expert = 2;
    both.expert_tensor = 2;
    all.push_back({std::string{name} + " t2 c2 ep2 etp2", both});
  }
  return all;
}

TEST_CASE("experts may be split over ranks that split sequences", "[context]") {
  TrainingConfig const base = mixture_of(Precision::fp64);
  std::vector<RecomputePolicy> const all = policies();
  std::size_t turn = 0;
  for (Layout const& layout : layouts_of_experts()) {
    CAPTURE(layout.name);
    TrainingConfig config = with(base, layout);
    config.recompute = {all[turn++ % all.size()]};
    if (config.recompute.front().modules == std::vector<std::string>{"layernorm", "mlp"}) {
      config.recompute = {selective({"moe"})};
    }
    REQUIRE(fits(config));
    require_close(base, config, 1e-12);
  }
}

TEST_CASE("ranks that split sequences have loss and gradient norm of one rank", "[context]") {
  TrainingConfig const base = gpt_of(Precision::fp64);
  for (Layout const& layout : layouts()) {
    CAPTURE(layout.name);
    require_alike_steps(base, with(base, layout));
  }
}

TEST_CASE("recomputed attention over ranks that split sequences has the same gradients",
          "[context]") {
  for (TrainingConfig const& model : {gpt_of(Precision::fp64), llama_of(Precision::fp64)}) {
    for (auto const& [method, name] : EnumNames<ContextMethod>::all) {
      TrainingConfig const base = with(model, {"", of(1, 2, 1, 2, method)});
      for (RecomputePolicy const& policy : policies()) {
        CAPTURE(name, name_of(policy.granularity), policy.modules);
        TrainingConfig again = base;
        again.recompute = {policy};
        require_close(base, again, 0);
      }
    }
  }
}

TEST_CASE("a split backward over ranks that split sequences has the same gradients", "[context]") {
  TrainingConfig const base = llama_of(Precision::fp64);
  for (auto const& [method, name] : EnumNames<ContextMethod>::all) {
    CAPTURE(name);
    TrainingConfig split = with(base, {"", of(1, 2, 2, 1, method)});
    split.schedule = {.kind = ScheduleKind::zb_h1, .p2p = P2p::overlapped};
    REQUIRE(fits(split));
    require_close(base, split, 1e-12);
  }
}

void require_predicted(TrainingConfig const& config, std::string const& layout) {
  RecomputePolicy const policy =
      config.recompute.empty() ? RecomputePolicy{} : config.recompute.front();
  CAPTURE(layout, name_of(policy.granularity), policy.modules);
  require_predicted_bytes(config);
}

TEST_CASE("plans that split sequences hold what the simulator predicts, to the byte",
          "[context][long]") {
  int compared = 0;
  std::vector<RecomputePolicy> const all = policies();
  std::size_t turn = 0;
  for (Precision const precision :
       {Precision::bf16, Precision::fp16, Precision::fp32, Precision::fp64}) {
    for (TrainingConfig const& base :
         {gpt_of(precision), llama_of(precision), splittable(small_qwen3(precision)),
          splittable(small_gemma2(precision)), deepseek_of(precision)}) {
      for (Layout const& layout : layouts()) {
        TrainingConfig config = with(base, layout);
        config.recompute = {all[turn++ % all.size()]};
        if (!fits(config)) continue;
        require_predicted(config, layout.name);
        ++compared;
      }
    }
  }
  REQUIRE(compared >= 650);
}

TEST_CASE("plans that split sequences and experts hold what the simulator predicts", "[context]") {
  for (Precision const precision : {Precision::bf16, Precision::fp32}) {
    for (Layout const& layout : layouts_of_experts()) {
      require_predicted(with(mixture_of(precision), layout), layout.name);
    }
  }
}

TEST_CASE("training with split sequences lowers the loss as one rank does", "[context]") {
  std::vector<ParallelLayout> layouts;
  for (auto const& entry : EnumNames<ContextMethod>::all) {
    layouts.push_back(of(1, 2, 1, 2, entry.first));
  }
  require_learning(llama_of(Precision::fp32), layouts);
}

}  // namespace
}  // namespace stagecraft::context_test
