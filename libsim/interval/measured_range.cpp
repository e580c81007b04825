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
  bool has_expert_overlap = false;
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
                                                .has_expert_overlap = true,
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

bool has_windows(ModelConfig const& model) {
  LayerKinds const kinds{model};
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    if (kinds.of_layer(layer).window > 0) return true;
  }
  return false;
}

bool recomputes(TrainingConfig const& config, RecomputeGranularity granularity) {
  return std::ranges::find(config.recompute, granularity, &RecomputePolicy::granularity) !=
         config.recompute.end();
}

template <typename Enum>
std::string word_of(Enum value) {
  return std::string{name_of(value)};
}

/// A setting of a run, and the values of it that measured runs have.
struct Setting {
  bool is_outside = false;  ///< whether the run's value is none of them
  std::string setting;
  std::string measured;
};

std::vector<Setting> settings_of(TrainingConfig const& config, MeasuredRange const& range) {
  ModelConfig const& model = config.model;
  ParallelLayout const& parallel = config.parallel;
  // The order of a run with expert_overlap, and its messages, follow from that.
  bool const has_pairs = parallel.expert_overlap;
  ScheduleKind const kind = config.schedule.kind;
  bool const is_overlapped =
      parallel.pipeline > 1 && !has_pairs && config.schedule.p2p == P2p::overlapped;
  bool const is_sharded = config.sharding.shares_optimizer() && parallel.data > 1;
  return {
      {has_windows(model), "model.window", "full attention"},
      {has_latents(model) && !range.has_latents, "model.latent_attention",
       "keys and values by head"},
      {model.precision != range.precision, "model.precision " + word_of(model.precision),
       word_of(range.precision)},
      {config.low_precision.recipe != Recipe::none,
       "low_precision " + word_of(config.low_precision.recipe), "none"},
      {model.attention != range.attention, "model.attention " + word_of(model.attention),
       word_of(range.attention)},
      {parallel.tensor > range.most_tensor, "parallel.tensor " + std::to_string(parallel.tensor),
       "up to " + std::to_string(range.most_tensor)},
      {has_pairs && !range.has_expert_overlap, "parallel.expert_overlap", "false"},
      {kind != ScheduleKind::one_f_one_b && !has_pairs &&
           !(kind == ScheduleKind::interleaved && range.has_interleaved),
       "schedule.kind " + word_of(kind), range.has_interleaved ? "1f1b, interleaved" : "1f1b"},
      {is_overlapped && !range.has_overlapped_p2p, "schedule.p2p overlapped", "blocking"},
      {is_sharded && !range.has_sharded_optimizer, "memory.distributed_optimizer",
       "the whole optimizer on each replica"},
      {config.offload != Offload{}, "offload", "all state on the accelerator"},
      {recomputes(config, RecomputeGranularity::selective) && !range.has_selective,
       "recompute selective", "none"},
      {recomputes(config, RecomputeGranularity::full) && !range.has_full, "recompute full",
       range.has_selective ? "none, selective" : "none"}};
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
  for (Setting const& one : settings_of(config, *range)) {
    if (one.is_outside) settings.push_back(one.setting + on + one.measured + ")");
  }
  return settings;
}

}  // namespace stagecraft
