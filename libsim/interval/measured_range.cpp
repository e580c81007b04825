#include "libsim/interval/measured_range.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <optional>
#include <string_view>

#include "libsim/hardware/software.hpp"
#include "libsim/model/layer_kinds.hpp"
#include "libsim/model/model_names.hpp"

namespace stagecraft {
namespace {

/// Settings of the measured runs on one accelerator that configs/compared.yaml does not list.
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
  // GB200 is not of the family B200.
  std::size_t const begin = accelerator.find(family);
  return begin != std::string_view::npos &&
         (begin == 0 || std::isalnum(static_cast<unsigned char>(accelerator[begin - 1])) == 0);
}

std::vector<std::string> outside_of_measured(TrainingConfig const& config,
                                             std::string const& where,
                                             IsMeasuredOn const& is_measured_on) {
  std::optional<RunRange> range;  // of runs that split sequences as this one does, or not
  std::optional<RunRange> any;
  bool const experts = has_experts(config.model);
  auto const add = [](std::optional<RunRange>& to, RunRange const& more) {
    to = to ? joined(*to, more) : more;
  };
  for (ComparedRuns const& runs : compared_runs()) {
    if (runs.experts != experts || !is_measured_on(runs)) continue;
    add(any, runs.range);
    if (runs.context_parallel == (config.parallel.context > 1)) add(range, runs.range);
  }
  if (!range) range = any;
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
  // A validated system has no warning that says for which regimes it was.
  auto const is_alike = [&](ComparedRuns const& runs) {
    return runs.experts == has_experts(config.model) &&
           runs.context_parallel == (config.parallel.context > 1);
  };
  bool const is_known = std::ranges::any_of(compared_runs(), [&](ComparedRuns const& runs) {
    return is_on(runs.accelerator, family) && is_alike(runs);
  });
  bool const is_known_here = std::ranges::any_of(compared_runs(), [&](ComparedRuns const& runs) {
    return runs.system == system.name && runs.software == described_stack(system.software) &&
           is_alike(runs);
  });
  if (system.validated && is_compared(system.name) && is_known && !is_known_here) {
    settings.push_back(regime_text(config, system.software) + " on " + system.name +
                       " (no run was measured)");
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
  add(config.low_precision.recipe != Recipe::none,
      "low_precision " + std::string{name_of(config.low_precision.recipe)}, "none");
  add(model.attention != range->attention,
      "model.attention " + std::string{name_of(model.attention)},
      std::string{name_of(range->attention)});
  add(parallel.tensor > range->most_tensor, "parallel.tensor " + std::to_string(parallel.tensor),
      "up to " + std::to_string(range->most_tensor));
  ScheduleKind const kind = config.schedule.kind;
  bool const is_measured = kind == ScheduleKind::one_f_one_b ||
                           (kind == ScheduleKind::interleaved && range->has_interleaved);
  add(!is_measured, "schedule.kind " + std::string{name_of(kind)},
      range->has_interleaved ? "1f1b, interleaved" : "1f1b");
  add(parallel.pipeline > 1 && config.schedule.p2p == P2p::overlapped && !range->has_overlapped_p2p,
      "schedule.p2p overlapped", "blocking");
  add(config.sharding.shares_optimizer() && parallel.data > 1 && !range->has_sharded_optimizer,
      "memory.distributed_optimizer", "the whole optimizer on each replica");
  add(config.offload != Offload{}, "offload", "all state on the accelerator");
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
