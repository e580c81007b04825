#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "libexec/backends/numbers.hpp"
#include "libsim/model/model_names.hpp"
#include "tests/libexec/executor/run_checks.hpp"
#include "tests/libexec/executor/small_runs.hpp"

namespace stagecraft::batch_balance_test {
namespace {

constexpr double coefficient = 0.3;

/// Four microbatches whose routers are trained to choose evenly over the global batch.
TrainingConfig balanced_over_batch(Precision precision) {
  TrainingConfig config = small_llama(precision);
  config.model.experts = ExpertsConfig{.count = 4,
                                       .per_token = 2,
                                       .ffn_hidden = 12,
                                       .router = {.order = RouterOrder::before,
                                                  .loss = RouterLoss::global_auxiliary,
                                                  .loss_coefficient = coefficient,
                                                  .z_loss = 0.02}};
  return config;
}

std::vector<ParallelLayout> expert_layouts() {
  return {expert_layout(1, 1, 2, 2, 1), expert_layout(2, 1, 1, 2, 1), expert_layout(2, 1, 2, 2, 2),
          expert_layout(4, 1, 1, 4, 1), expert_layout(1, 2, 1, 1, 1), expert_layout(2, 2, 2, 4, 1)};
}

std::vector<RecomputePolicy> policies() {
  return {{},
          selective({"moe"}),
          selective({"moe_act", "layernorm"}),
          {.granularity = RecomputeGranularity::full}};
}

/// The logits [tokens, experts] that routers have counted in each step, by layer and rank, in the
/// order of the microbatches.
class LogitsOfRouters {
 public:
  OpObserver observer() {
    return [this](RankContext const& context, Op const& op, KernelCall const& call) {
      if (call.kind != OpKind::count_choices) return;
      Operand const& logits = call.reads[0];
      std::vector<std::byte> bytes(
          static_cast<std::size_t>(logits.shape.elements() * element_size(logits.type)));
      context.backend.read(bytes.data(), logits.data, bytes.size());
      std::lock_guard const lock{mutex_};
      is_recomputed_ = is_recomputed_ || op.phase == Phase::recompute;
      steps_[call.draw.step][call.draw.layer][context.rank.value()].push_back(
          decode(bytes, logits.type));
    };
  }

  /// What the paper that Megatron-Core names asks for, on these logits: E sum_e f_e P_e of each
  /// microbatch, with f the mean share of all choices so far, and P the mean probability over the
  /// tokens of all replicas. Source: Qiu et al. 2025, arXiv:2501.11873.
  double sum_of_losses(std::uint32_t step, std::size_t experts, std::size_t per_token) const {
    double sum = 0;
    for (auto const& [layer, ranks] : steps_.at(step)) {
      Shares shares{experts, per_token};
      for (std::size_t k = 0; k < ranks.begin()->second.size(); ++k) {
        shares.begin_microbatch();
        for (auto const& [rank, microbatches] : ranks) shares.add(microbatches[k]);
        sum += shares.loss();
      }
    }
    return sum;
  }
  bool is_recomputed() const { return is_recomputed_; }

 private:
  class Shares {
   public:
    Shares(std::size_t experts, std::size_t per_token) : chosen_(experts), per_token_{per_token} {}

    void begin_microbatch() {
      probability_.assign(chosen_.size(), 0);
      tokens_ = 0;
    }
    void add(std::vector<double> const& logits) {
      for (std::size_t first = 0; first < logits.size(); first += chosen_.size()) {
        std::vector<std::size_t> order(chosen_.size());
        std::iota(order.begin(), order.end(), first);
        std::ranges::sort(order, std::greater{}, [&](std::size_t i) { return logits[i]; });
        double all = 0;
        for (std::size_t const i : order) all += std::exp(logits[i]);
        for (std::size_t const i : order) probability_[i - first] += std::exp(logits[i]) / all;
        for (std::size_t i = 0; i < per_token_; ++i) chosen_[order[i] - first] += 1;
        tokens_ += 1;
      }
    }
    double loss() const {
      double const choices = std::accumulate(chosen_.begin(), chosen_.end(), 0.0);
      double sum = 0;
      for (std::size_t e = 0; e < chosen_.size(); ++e) {
        sum += chosen_[e] / choices * probability_[e] / tokens_;
      }
      return static_cast<double>(chosen_.size()) * sum;
    }

   private:
    std::vector<double> chosen_;  ///< of all microbatches so far
    std::size_t per_token_;
    std::vector<double> probability_;  ///< sums over the tokens of the microbatch
    double tokens_ = 0;
  };

  using Microbatches = std::vector<std::vector<double>>;
  std::mutex mutex_;
  bool is_recomputed_ = false;
  std::map<std::uint32_t, std::map<std::uint32_t, std::map<int, Microbatches>>> steps_;
};

TEST_CASE(
    "a loss over the global batch has slopes of the loss, with counts of several microbatches",
    "[experts]") {
  TrainingConfig config = balanced_over_batch(Precision::fp64);
  config.model.layers = 2;
  REQUIRE(config.batch.global == 4 * config.batch.micro);
  REQUIRE(require_slopes(config, [](std::string const& name) {
            return name.find("router") != std::string::npos ||
                   name.find("mlp_norm") != std::string::npos;
          }) >= 4);
}

/// Megatron-LM divides by the tokens of all replicas and then takes the mean over these
/// (router.py: _apply_global_aux_loss, get_tokens_per_expert_and_token_count), so that what is
/// trained is the loss over d.
TEST_CASE("a loss over the global batch is that of the formula on the logits of all ranks",
          "[experts]") {
  for (ParallelLayout const& layout :
       {ParallelLayout{}, expert_layout(1, 1, 2, 2, 1), expert_layout(2, 1, 2, 2, 1),
        expert_layout(1, 1, 4, 2, 1), expert_layout(2, 2, 1, 2, 1)}) {
    CAPTURE(layout.tensor, layout.pipeline, layout.data);
    TrainingConfig config = balanced_over_batch(Precision::fp64);
    config.model.experts->router.z_loss = 0;
    config.parallel = layout;
    LogitsOfRouters logits;
    SmallRun run{.options = {.steps = 3}};
    run.options.on_op = logits.observer();
    std::vector<StepReport> const steps = execute(config, run).steps;
    double const microbatches = 4.0 / layout.data;
    for (std::uint32_t i = 0; i < 3; ++i) {
      double const expected =
          coefficient * logits.sum_of_losses(i, 4, 2) / microbatches / layout.data;
      double const trained = steps[i].loss - steps[i].next_token_loss.value();
      REQUIRE(trained == Approx(expected).epsilon(1e-10));
    }
  }
}

TEST_CASE("a loss over the global batch is that of a microbatch if there is one of each",
          "[experts]") {
  TrainingConfig config = balanced_over_batch(Precision::fp64);
  config.batch.global = config.batch.micro;
  TrainingConfig of_microbatch = config;
  of_microbatch.model.experts->router.loss = RouterLoss::auxiliary;
  require_close(config, of_microbatch, 0);
  REQUIRE(execute(config).steps.front().loss == execute(of_microbatch).steps.front().loss);
  config.batch.global *= 2;
  of_microbatch.batch.global *= 2;
  REQUIRE(execute(config).steps.front().loss != execute(of_microbatch).steps.front().loss);
}

TEST_CASE("layouts and orders with as many replicas train a loss over the global batch alike",
          "[experts]") {
  for (ParallelLayout const& layout : expert_layouts()) {
    CAPTURE(layout.tensor, layout.pipeline, layout.data, layout.expert);
    TrainingConfig base = balanced_over_batch(Precision::fp64);
    base.parallel.data = layout.data;
    TrainingConfig config = base;
    config.parallel = layout;
    config.sharding = sharding_of(layout.data > 1);
    require_close(base, config, 1e-12);
    REQUIRE(execute(config).steps.front().loss ==
            Approx(execute(base).steps.front().loss).epsilon(1e-13));
  }
  TrainingConfig const base = balanced_over_batch(Precision::fp64);
  for (ScheduleKind const kind : {ScheduleKind::gpipe, ScheduleKind::zb_h1}) {
    CAPTURE(name_of(kind));
    TrainingConfig config = base;
    config.parallel.pipeline = 2;
    config.schedule.kind = kind;
    require_close(base, config, 1e-12);
  }
  TrainingConfig whole = base;
  whole.model.attention = Attention::flash;
  whole.model.attention_dropout = 0;
  TrainingConfig split = whole;
  split.parallel.context = 2;
  require_close(whole, split, 1e-12);
}

TEST_CASE("recompute counts choices over the global batch once", "[experts]") {
  TrainingConfig base = balanced_over_batch(Precision::fp64);
  base.parallel = expert_layout(2, 1, 2, 2, 1);
  double const loss = execute(base).steps.front().loss;
  for (RecomputePolicy const& policy : policies()) {
    CAPTURE(policy.modules, name_of(policy.granularity));
    TrainingConfig again = base;
    again.recompute = {policy};
    require_close(base, again, 0);
    LogitsOfRouters logits;
    SmallRun run;
    run.options.on_op = logits.observer();
    REQUIRE(execute(again, run).steps.front().loss == loss);
    REQUIRE_FALSE(logits.is_recomputed());
  }
}

TEST_CASE("plans with counters hold what the simulator predicts, to the byte", "[experts]") {
  std::size_t turn = 0;
  for (Precision const precision : {Precision::bf16, Precision::fp64}) {
    for (ParallelLayout const& layout : expert_layouts()) {
      TrainingConfig config = balanced_over_batch(precision);
      config.parallel = layout;
      config.sharding = sharding_of(layout.data > 1);
      config.recompute = {policies()[turn++ % policies().size()]};
      require_predicted_bytes(config);
    }
  }
  TrainingConfig config = balanced_over_batch(Precision::bf16);
  config.parallel.pipeline = 2;
  config.parallel.interleave = 2;
  config.schedule.kind = ScheduleKind::interleaved;
  require_predicted_bytes(config);
}

}  // namespace
}  // namespace stagecraft::batch_balance_test
