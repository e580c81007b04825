#include "libsim/interval/measured_range.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "libsim/model/layer_kinds.hpp"
#include "libsim/model/model_names.hpp"

namespace stagecraft {
namespace {

/// What the measured runs on one accelerator have, beside what configs/compared.yaml says.
struct MeasuredRange {
  std::string_view accelerator;  ///< a part of its name
  Precision precision = Precision::fp16;
  Attention attention = Attention::unfused;
  int most_tensor = 1;
  bool has_interleaved = false;
  bool has_overlapped_p2p = false;
  bool has_sharded_optimizer = false;
  bool has_selective = false;  ///< recompute
  bool has_full = false;       ///< recompute
  bool has_latents = false;
};

/// A100: Table 5 (Korthikanti et al. 2022, Megatron-LM), Narayanan et al. 2021, vTrain, MT-NLG,
/// BLOOM. H100: nanotron, NVIDIA's published benchmarks and models with experts. B200: SimuMax, one
/// node.
constexpr std::array<MeasuredRange, 3> ranges{{{.accelerator = "A100",
                                                .precision = Precision::fp16,
                                                .attention = Attention::unfused,
                                                .most_tensor = 16,
                                                .has_interleaved = true,
                                                .has_overlapped_p2p = false,
                                                .has_sharded_optimizer = true,
                                                .has_selective = true,
                                                .has_full = true,
                                                .has_latents = false},
                                               {.accelerator = "H100",
                                                .precision = Precision::bf16,
                                                .attention = Attention::flash,
                                                .most_tensor = 128,
                                                .has_interleaved = true,
                                                .has_overlapped_p2p = false,
                                                .has_sharded_optimizer = true,
                                                .has_selective = true,
                                                .has_full = false,
                                                .has_latents = true},
                                               {.accelerator = "B200",
                                                .precision = Precision::bf16,
                                                .attention = Attention::flash,
                                                .most_tensor = 8,
                                                .has_interleaved = false,
                                                .has_overlapped_p2p = false,
                                                .has_sharded_optimizer = true,
                                                .has_selective = false,
                                                .has_full = false,
                                                .has_latents = true}}};

/// Null if no run on an accelerator like a system's was measured.
MeasuredRange const* range_of(System const& system) {
  auto const found = std::ranges::find_if(ranges, [&](MeasuredRange const& range) {
    return is_on(system.accelerator.name, range.accelerator);
  });
  return found == ranges.end() ? nullptr : &*found;
}

bool has_setting(ModelConfig const& model, auto predicate) {
  LayerKinds const kinds{model};
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    if (predicate(kinds.of_layer(layer))) return true;
  }
  return false;
}

}  // namespace

bool is_on(std::string_view accelerator, std::string_view family) {
  return accelerator.find(family) != std::string_view::npos;
}

std::vector<std::string> outside_of_measured(TrainingConfig const& config,
                                             std::string const& where,
                                             IsMeasuredOn const& is_measured_on) {
  std::optional<RunRange> range;
  bool const experts = has_experts(config.model);
  for (ComparedRuns const& runs : compared_runs()) {
    if (runs.experts != experts || !is_measured_on(runs)) continue;
    range = range ? joined(*range, runs.range) : runs.range;
  }
  if (range) return outside(config, *range, where);
  return {experts ? "model.experts (measured on " + where + ": dense models)"
                  : "dense models (measured on " + where + ": mixtures of experts)"};
}

std::vector<std::string> unmeasured_settings(TrainingConfig const& config, System const& system) {
  MeasuredRange const* const range = range_of(system);
  if (range == nullptr)
    return {"accelerator " + system.accelerator.name + " (no run was measured)"};
  std::string const family{range->accelerator};
  std::string const on = " (measured on " + family + ": ";
  std::vector<std::string> settings = outside_of_measured(
      config, family, [&](ComparedRuns const& runs) { return is_on(runs.accelerator, family); });
  auto const add = [&](bool is_outside, std::string const& setting, std::string const& measured) {
    if (is_outside) settings.push_back(setting + on + measured + ")");
  };
  // A validated system has no warning of which regimes it was validated for.
  bool const is_measured_elsewhere = std::ranges::any_of(compared_runs(), [&](auto const& runs) {
    return is_on(runs.accelerator, family) && are_like(runs, config);
  });
  if (system.validated && is_compared(system.name) && is_measured_elsewhere &&
      compared_runs_of(system.name, config) == nullptr) {
    settings.push_back(regime_text(config) + " on " + system.name + " (measured on other systems)");
  }
  ModelConfig const& model = config.model;
  bool const has_windows =
      has_setting(model, [](LayerConfig const& layer) { return layer.window > 0; });
  add(has_windows, "model.window", "full attention");
  add(!range->has_latents && has_latents(model), "model.latent_attention",
      "keys and values by head");
  ParallelLayout const& parallel = config.parallel;
  add(model.precision != range->precision,
      "model.precision " + std::string{name_of(model.precision)},
      std::string{name_of(range->precision)});
  add(model.attention != range->attention,
      "model.attention " + std::string{name_of(model.attention)},
      std::string{name_of(range->attention)});
  add(parallel.tensor > range->most_tensor, "parallel.tensor " + std::to_string(parallel.tensor),
      "up to " + std::to_string(range->most_tensor));
  ScheduleKind const kind = config.schedule.kind;
  bool const is_measured = kind == ScheduleKind::one_f_one_b ||
                           (kind == ScheduleKind::interleaved && range->has_interleaved);
  add(!is_measured, "schedule", range->has_interleaved ? "1f1b, interleaved" : "1f1b");
  add(parallel.pipeline > 1 && config.schedule.p2p == P2p::overlapped && !range->has_overlapped_p2p,
      "schedule.p2p overlapped", "blocking");
  add(config.memory.distributed_optimizer && parallel.data > 1 && !range->has_sharded_optimizer,
      "memory.distributed_optimizer", "the whole optimizer on each replica");
  auto const recomputes = [&](RecomputeGranularity granularity) {
    return std::ranges::any_of(config.recompute, [granularity](RecomputePolicy const& policy) {
      return policy.granularity == granularity;
    });
  };
  add(recomputes(RecomputeGranularity::selective) && !range->has_selective, "recompute selective",
      "none");
  add(recomputes(RecomputeGranularity::full) && !range->has_full, "recompute full",
      range->has_selective ? "none, selective" : "none");
  return settings;
}

}  // namespace stagecraft
