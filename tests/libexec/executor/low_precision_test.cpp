#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "libexec/executor/executable.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/program/low_library.hpp"
#include "tests/libexec/executor/plan_grid.hpp"
#include "tests/libexec/executor/run_checks.hpp"
#include "tests/libexec/executor/small_runs.hpp"

// Plans whose products are in 8 or 4 bits.

namespace stagecraft::low_precision_test {
namespace {

/// A recipe as a library has it.
struct LowCase {
  Recipe recipe = Recipe::current;
  LowLibrary library = LowLibrary::transformer_engine;
};

constexpr std::array cases{LowCase{Recipe::current},
                           LowCase{Recipe::current, LowLibrary::torchao},
                           LowCase{Recipe::rowwise, LowLibrary::torchao},
                           LowCase{Recipe::blockwise},
                           LowCase{Recipe::mxfp8},
                           LowCase{Recipe::nvfp4}};

std::string name_of_case(LowCase const& low) {
  return std::string{name_of(low.recipe)} + " of " + std::string{name_of(low.library)};
}

/// Widths that each of two tensor ranks can split into whole blocks of the recipe.
TrainingConfig aligned(TrainingConfig config, Recipe recipe) {
  std::int64_t const width = std::max<std::int64_t>(32, find_recipe(recipe)->alignment);
  ModelConfig& model = config.model;
  model.hidden = 2 * width;
  model.head_dim = 2 * width / model.heads;
  model.ffn_hidden = 2 * width;
  model.vocabulary_multiple = 32;
  if (model.experts) {
    model.experts->ffn_hidden = 2 * width;
    if (model.experts->shared_ffn_hidden > 0) model.experts->shared_ffn_hidden = 2 * width;
  }
  // Products neither grow nor shrink from layer to layer.
  config.training.init_std = 0.5 / std::sqrt(static_cast<double>(model.hidden));
  return config;
}

TrainingConfig with(TrainingConfig config, LowCase const& low) {
  config = aligned(std::move(config), low.recipe);
  config.low_precision.recipe = low.recipe;
  config.low_precision.implementation = low.library;
  return config;
}

/// A plan, as the numbers of a seed have it; none if the settings do not go together.
class DrawnPlans {
 public:
  explicit DrawnPlans(unsigned seed) : engine_{seed} {}

  NamedRun next(LowCase const& low) {
    for (;;) {
      NamedRun run = draw(low);
      if (is_possible(run.config)) return run;
    }
  }

 private:
  std::size_t below(std::size_t n) { return engine_() % n; }

  NamedRun draw(LowCase const& low) {
    Precision const precision = below(3) == 0 ? Precision::fp16 : Precision::bf16;
    std::array const models{small_gpt(precision), small_llama(precision), small_mixture(precision)};
    bool const casts = traits_of(low.library).casts_weights;
    TrainingConfig const base = with(models.at(below(casts ? 2 : 3)), low);
    std::vector<NamedRun> layouts = layouts_of(base);
    for (NamedRun& run : split_layouts_of(base)) layouts.push_back(std::move(run));
    if (base.model.experts) {
      for (ParallelLayout const& parallel :
           {expert_layout(1, 1, 2, 2, 1), expert_layout(2, 1, 1, 2, 1),
            expert_layout(1, 2, 2, 2, 1), expert_layout(2, 1, 2, 2, 1)}) {
        NamedRun run{"experts", base};
        run.config.parallel = parallel;
        run.config.sharding = sharding_of(parallel.tensor > 1 && parallel.data > 1);
        for (int i = 0; i < 3; ++i) layouts.push_back(run);
      }
    }
    if (casts) {
      NamedRun units{"units", base};
      units.config.parallel.data = 2;
      units.config.sharding = default_sharding(ShardingKind::fsdp2);
      for (int i = 0; i < 12; ++i) layouts.push_back(units);
    }
    NamedRun run = layouts.at(below(layouts.size()));
    TrainingConfig& config = run.config;
    if (casts && config.parallel.tensor > 1) config.parallel.sequence = true;
    NamedPolicy const policy = all_policies().at(below(all_policies().size()));
    config.recompute = {policy.policy};
    std::erase(config.recompute.front().modules, "mla_up_projection");
    config.stack.sums_along_rows = below(2) == 0;
    if (below(4) == 0) config.low_precision.keep_high.first = 1;
    if (!casts && below(4) == 0) config.low_precision.keep_high.wgrad = true;
    if (low.recipe == Recipe::rowwise && below(4) == 0) {
      config.low_precision.keep_high.wgrad = true;
    }
    run.name = name_of_case(low) + ", " + run.name + ", " + policy.name;
    return run;
  }

  static bool is_possible(TrainingConfig const& config) {
    RecomputePolicy const& policy = config.recompute.front();
    // Four ranks would split a width that two split.
    if (config.parallel.tensor > 2) return false;
    if (policy.sharded_checkpoints && (config.parallel.sequence || config.parallel.tensor == 1)) {
      return false;
    }
    bool const has_window = policy.store_microbatches != StoreMicrobatches{};
    bool const may_share = !has_window && !policy.sharded_checkpoints;
    return !config.sharding.has_units() || (may_share && !config.model.tied_embeddings);
  }

  std::mt19937 engine_;
};

TEST_CASE("ranks that multiply in 8 or 4 bits hold what is predicted, to the byte, on drawn plans",
          "[low]") {
  DrawnPlans drawn{20};
  for (std::size_t i = 0; i < 12; ++i) {
    NamedRun const run = drawn.next(cases.at(i % cases.size()));
    CAPTURE(run.name);
    require_predicted_bytes(run.config);
  }
}

TEST_CASE("ranks that multiply in 8 or 4 bits hold what is predicted, on 120 drawn plans",
          "[low][long]") {
  DrawnPlans drawn{36};
  std::map<std::string, int> counts;
  for (std::size_t i = 0; i < 120; ++i) {
    NamedRun const run = drawn.next(cases.at(i % cases.size()));
    CAPTURE(run.name);
    TrainingConfig const& config = run.config;
    require_predicted_bytes(config);
    counts["experts"] += config.model.experts ? 1 : 0;
    counts["pipelines"] += config.parallel.pipeline > 1 ? 1 : 0;
    counts["tensor ranks"] += config.parallel.tensor > 1 ? 1 : 0;
    counts["shards"] += config.sharding.kind != ShardingKind::none ? 1 : 0;
    counts["units"] += config.sharding.has_units() ? 1 : 0;
    counts["recompute"] +=
        config.recompute.front().granularity != RecomputeGranularity::none ? 1 : 0;
  }
  for (auto const& [what, count] : counts) {
    UNSCOPED_INFO(what << " " << count);
    CHECK(count >= 5);
  }
}

/// The largest relative distance of a tensor's gradients.
double distance_of_gradients(TrainingConfig const& config, TrainingConfig const& of) {
  std::vector<WholeTensor> const got = gradients_of(config);
  std::vector<WholeTensor> const wanted = gradients_of(of);
  REQUIRE(got.size() == wanted.size());
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(got[i].name);
    double const distance = relative_distance(got[i], wanted[i]);
    REQUIRE(std::isfinite(distance));
    most = std::max(most, distance);
  }
  return most;
}

TEST_CASE("gradients in 8 and 4 bits are finite, and near those in 16", "[low]") {
  for (LowCase const& low : cases) {
    CAPTURE(name_of_case(low));
    TrainingConfig config = with(small_llama(Precision::bf16), low);
    config.model.layers = 2;
    config.parallel.tensor = 1;
    TrainingConfig high = config;
    high.low_precision = {};
    double const distance = distance_of_gradients(config, high);
    CAPTURE(distance);
    // Half a step of E2M1 is 1/4 of an element, of E4M3 1/16, of E5M2 1/8; errors of elements are
    // independent, but those of layers add up.
    CHECK(distance < (low.recipe == Recipe::nvfp4 ? 0.6 : 0.2));
    CHECK(distance > 1e-3);
  }
}

TEST_CASE("ranks that gather quantised operands compute what one rank computes", "[low]") {
  for (LowCase const& low : cases) {
    CAPTURE(name_of_case(low));
    TrainingConfig config = with(small_llama(Precision::bf16), low);
    config.model.layers = 2;
    TrainingConfig split = config;
    split.parallel = {.tensor = 2, .sequence = true};
    double const one = execute(config, {.options = {.steps = 2}}).steps.back().loss;
    double const two = execute(split, {.options = {.steps = 2}}).steps.back().loss;
    CHECK(two == Approx(one).epsilon(0.01));
  }
}

/// The loss after 50 iterations on this project's README.
double loss_after_50(TrainingConfig config) {
  config.model.vocabulary = 256;
  config.model.layers = 2;
  config.model.sequence = 32;
  config.batch = {.global = 8, .micro = 4};
  config.training.learning_rate = 3e-3;
  config.training.init_std = 0.02;
  auto const text =
      file_tokens(std::string{STAGECRAFT_SOURCE_DIR} + "/README.md", 256, config.model.sequence);
  SmallRun const run{.options = {.steps = 50}, .gemm = GemmKind::openblas, .tokens = text.get()};
  std::vector<StepReport> const steps = execute(config, run).steps;
  REQUIRE(steps.back().loss < steps.front().loss - 1);
  return steps.back().loss;
}

TEST_CASE("50 steps in 8 or 4 bits lower the loss as those in bf16 do, within 2 %", "[low][long]") {
  for (LowCase const& low : cases) {
    CAPTURE(name_of_case(low));
    TrainingConfig const config = with(small_llama(Precision::bf16), low);
    TrainingConfig high = config;
    high.low_precision = {};
    double const in_16 = loss_after_50(high);
    double const in_few = loss_after_50(config);
    CHECK(in_few == Approx(in_16).epsilon(0.02));
  }
}

TEST_CASE("what has no kernel in 8 bits is refused, with its reason", "[low]") {
  auto const refused = [](auto change) {
    TrainingConfig config = with(small_mixture(Precision::bf16), {Recipe::current});
    change(config);
    try {
      require_executable(config);
    } catch (ConfigError const& error) {
      return std::string{error.what()};
    }
    return std::string{};
  };
  using C = TrainingConfig;
  CHECK(refused([](C&) {}).empty());
  CHECK_THAT(refused([](C& c) { c.low_precision.recipe = Recipe::delayed; }),
             Catch::Matchers::Contains("no buffers for the largest elements"));
  CHECK_THAT(refused([](C& c) { c.low_precision.implementation = LowLibrary::deepseek; }),
             Catch::Matchers::Contains("kernels of activations"));
  CHECK_THAT(refused([](C& c) { c.low_precision.parameters = LowOrHigh::low; }),
             Catch::Matchers::Contains("low_precision.parameters"));
  CHECK_THAT(refused([](C& c) { c.low_precision.attention = true; }),
             Catch::Matchers::Contains("kernels of attention"));
  CHECK_THAT(refused([](C& c) { c.routing.is_natural = true; }),
             Catch::Matchers::Contains("equally many rows"));
}

}  // namespace
}  // namespace stagecraft::low_precision_test
