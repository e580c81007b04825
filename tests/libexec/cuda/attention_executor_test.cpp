#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "libsim/model/model_names.hpp"
#include "libsim/training/training_config_checks.hpp"
#include "libsim/training/training_names.hpp"
#include "tests/libexec/executor/plan_grid.hpp"
#include "tests/libexec/executor/run_checks.hpp"

// Whole iterations of models whose attention is more than heads before a query, and of ranks that
// split sequences, on a CUDA device; held against the CPU.

namespace stagecraft {
namespace {

/// As many layers and microbatches as splits of a sequence need.
TrainingConfig smaller(TrainingConfig config) {
  config.model.layers = 2;
  config.batch.global = 4;
  return config;
}

/// Flash attention in all layers, without a dropout of its own: what sequences can be split with.
TrainingConfig with_flash(TrainingConfig config) {
  config.model.attention = Attention::flash;
  config.model.attention_dropout = 0;
  for (LayerRun& run : config.model.pattern) {
    run.kind.attention = Attention::flash;
    run.kind.attention_dropout = 0;
  }
  return config;
}

/// The clamped gate, sinks, and a window in every layer.
TrainingConfig with_sinks(Precision precision) {
  TrainingConfig config = with_flash(small_gpt_oss(precision));
  config.model.sinks = true;
  config.model.window = 3;
  return config;
}

/// Two modules of multi-token prediction behind the layers.
TrainingConfig with_predictions(Precision precision) {
  TrainingConfig config = small_llama(precision);
  config.model.predicted_tokens = 2;
  return config;
}

struct Model {
  std::string name;
  TrainingConfig config;
};

std::vector<Model> models(Precision precision) {
  std::vector<Model> all{{"latents", small_deepseek(precision, 6)},
                         {"latents of keys alone, flash", with_flash(small_deepseek(precision, 0))},
                         {"norms of each head", small_qwen3(precision)},
                         {"norms of all heads, flash", with_flash(small_olmo2(precision))},
                         {"windows and caps", small_gemma2(precision)},
                         {"windows and caps, flash", with_flash(small_gemma2(precision))},
                         {"sinks, windows, the clamped gate", with_sinks(precision)},
                         {"predicted tokens", with_predictions(precision)}};
  for (Model& model : all) model.config.batch.global = 4;
  return all;
}

/// Gradients on a device are those of the CPU. In 16 bits flash attention multiplies probabilities
/// that are rounded to 16 bits on tensor cores, and unrounded ones on a CPU: then they are as close
/// as the CPU's, but for a factor of two, to those in fp64 of `exact`.
void require_close_to_cpu(TrainingConfig const& config, TrainingConfig const& exact) {
  double const allowed = device_tolerance(config.model.precision);
  std::vector<WholeTensor> const got = gradients_of(config, on_device());
  std::vector<WholeTensor> const cpu = gradients_of(config);
  if (config.model.attention != Attention::flash || allowed < 1e-2) {
    return require_close(got, cpu, allowed);
  }
  std::vector<WholeTensor> const wanted = gradients_of(exact);
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(got[i].name);
    require_close({got[i]}, {wanted[i]}, 2 * relative_distance(cpu[i], wanted[i]) + allowed);
  }
}

TEST_CASE("gradients of models with latents, windows, caps, sinks and norms are those of the CPU",
          "[cuda]") {
  auto const precision =
      GENERATE(Precision::fp64, Precision::fp32, Precision::bf16, Precision::fp16);
  std::vector<Model> const all = models(precision);
  std::vector<Model> const exact = models(Precision::fp64);
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(all[i].name, name_of(precision));
    require_close_to_cpu(all[i].config, exact[i].config);
  }
}

/// Whether the layout may be had with the model: norms of all heads, for example, want them on one
/// rank, and a ring no windows.
bool fits(TrainingConfig const& config) { return problems_of(completed(config)).empty(); }

TEST_CASE("every layout of such models on a device has the gradients of one rank on the CPU",
          "[cuda]") {
  std::vector<Model> all = models(Precision::fp64);
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {  // predictions split into fewer stages
    all[i].config.batch.global = 8;                   // for four replicas
    std::vector<WholeTensor> const wanted = gradients_of(all[i].config);
    for (NamedRun const& run : layouts_of(all[i].config)) {
      if (!fits(run.config)) continue;
      CAPTURE(all[i].name, run.name);
      require_close(gradients_of(run.config, on_device()), wanted, 1e-11);
    }
  }
}

struct Split {
  std::string name;
  ParallelLayout parallel;
  bool is_sharded = false;
};

std::vector<Split> splits() {
  std::vector<Split> all;
  for (auto const& [method, name] : EnumNames<ContextMethod>::all) {
    auto const add = [&, method = method, name = name](std::string const& what, int t, int c, int p,
                                                       int d, bool is_sharded = false) {
      all.push_back({std::string{name} + " " + what,
                     {.tensor = t,
                      .pipeline = p,
                      .data = d,
                      .sequence = t > 1,
                      .context = c,
                      .context_method = method},
                     is_sharded});
    };
    add("c2", 1, 2, 1, 1);
    add("c4", 1, 4, 1, 1);
    add("t2 c2", 2, 2, 1, 1);
    add("c2 p2 d2 sharded", 1, 2, 2, 2, true);
  }
  ParallelLayout two_levels = all.front().parallel;
  two_levels.context = 4;
  two_levels.context_inner = 2;
  two_levels.context_method = ContextMethod::ring;
  all.push_back({"two levels c4", two_levels});
  return all;
}

TrainingConfig with(TrainingConfig config, Split const& split) {
  config.parallel = split.parallel;
  config.sharding = sharding_of(split.is_sharded);
  return config;
}

std::vector<Model> splittable_models(Precision precision) {
  return {{"GPT", smaller(with_flash(small_gpt(precision)))},
          {"Llama", smaller(with_flash(small_llama(precision)))},
          {"latents", smaller(with_flash(small_deepseek(precision, 6)))},
          {"windows and caps", smaller(with_flash(small_gemma2(precision)))},
          {"norms of all heads", smaller(with_flash(small_olmo2(precision)))}};
}

TEST_CASE("ranks that split sequences on a device have the gradients of one rank on the CPU",
          "[cuda]") {
  int compared = 0;
  for (Model const& model : splittable_models(Precision::fp64)) {
    std::vector<WholeTensor> const wanted = gradients_of(model.config);
    for (Split const& split : splits()) {
      TrainingConfig const config = with(model.config, split);
      if (!fits(config)) continue;
      CAPTURE(model.name, split.name);
      require_close(gradients_of(config, on_device()), wanted, 1e-11);
      ++compared;
    }
  }
  REQUIRE(compared >= 30);
}

TEST_CASE("ranks that split sequences have the CPU's gradients in 16 bits on a device", "[cuda]") {
  std::vector<Model> const exact = splittable_models(Precision::fp64);
  std::size_t turn = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    for (Split const& split : splits()) {
      Precision const precision = turn % 2 == 0 ? Precision::bf16 : Precision::fp16;
      Model const model = splittable_models(precision)[i];
      TrainingConfig const config = with(model.config, split);
      if (!fits(config) || world_size(config.parallel) > 2) continue;
      ++turn;
      CAPTURE(model.name, split.name, name_of(precision));
      require_close_to_cpu(config, exact[i].config);
    }
  }
  REQUIRE(turn >= 15);
}

TEST_CASE("attention that is recomputed over split sequences has the same bits on a device",
          "[cuda]") {
  for (auto const& [method, name] : EnumNames<ContextMethod>::all) {
    CAPTURE(name);
    TrainingConfig stored = smaller(with_flash(small_deepseek(Precision::bf16, 6)));
    stored.parallel = {.context = 2, .context_method = method};
    TrainingConfig again = stored;
    again.recompute = {selective({"core_attention", "mla_up_projection"})};
    require_same_bits(gradients_of(again, on_device()), gradients_of(stored, on_device()));
  }
}

TEST_CASE("a device that splits sequences counts the bytes that the CPU counts", "[cuda]") {
  std::size_t const models = splittable_models(Precision::fp32).size();
  int compared = 0;
  for (std::size_t i = 0; i < models; ++i) {
    for (Split const& split : splits()) {
      Precision const precision = compared % 2 == 0 ? Precision::bf16 : Precision::fp32;
      Model const model = splittable_models(precision)[i];
      TrainingConfig const config = with(model.config, split);
      if (!fits(config)) continue;
      CAPTURE(model.name, split.name, name_of(precision));
      require_same_memory(config);
      ++compared;
    }
  }
  REQUIRE(compared >= 30);
}

TEST_CASE("a device counts the bytes that the CPU counts of sinks and predicted tokens", "[cuda]") {
  for (auto const& make : {with_sinks, with_predictions}) {
    TrainingConfig config = make(Precision::bf16);
    config.parallel = {.tensor = 2, .pipeline = 2, .sequence = true};
    require_same_memory(config);
  }
}

}  // namespace
}  // namespace stagecraft
