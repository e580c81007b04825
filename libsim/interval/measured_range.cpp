#include "libsim/interval/measured_range.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "libsim/model/layer_kinds.hpp"
#include "libsim/model/model_names.hpp"

namespace stagecraft {
namespace {

/// What the measured runs on one accelerator have.
struct MeasuredRange {
  std::string_view accelerator;  ///< a part of its name
  Precision precision = Precision::fp16;
  Attention attention = Attention::unfused;
  std::int64_t least_sequence = 0;
  std::int64_t most_sequence = 0;
  int most_tensor = 1;
  int most_context = 1;
  int most_gpus = 1;
  bool has_interleaved = false;
  bool has_overlapped_p2p = false;
  bool has_sharded_optimizer = false;
  bool has_selective = false;  ///< recompute
  bool has_full = false;       ///< recompute
  bool has_experts = false;
  bool has_latents = false;
};

/// A100: Table 5 (Korthikanti et al. 2022, Megatron-LM), Narayanan et al. 2021, vTrain, MT-NLG,
/// BLOOM. H100: nanotron, NVIDIA's published benchmarks and models with experts. B200: SimuMax, one
/// node.
constexpr std::array<MeasuredRange, 3> ranges{{{.accelerator = "A100",
                                                .precision = Precision::fp16,
                                                .attention = Attention::unfused,
                                                .least_sequence = 1024,
                                                .most_sequence = 2048,
                                                .most_tensor = 16,
                                                .most_context = 1,
                                                .most_gpus = 3360,
                                                .has_interleaved = true,
                                                .has_overlapped_p2p = false,
                                                .has_sharded_optimizer = true,
                                                .has_selective = true,
                                                .has_full = true,
                                                .has_experts = false,
                                                .has_latents = false},
                                               {.accelerator = "H100",
                                                .precision = Precision::bf16,
                                                .attention = Attention::flash,
                                                .least_sequence = 4096,
                                                .most_sequence = 8192,
                                                .most_tensor = 128,
                                                .most_context = 2,
                                                .most_gpus = 2304,
                                                .has_interleaved = true,
                                                .has_overlapped_p2p = false,
                                                .has_sharded_optimizer = true,
                                                .has_selective = true,
                                                .has_full = false,
                                                .has_experts = true,
                                                .has_latents = true},
                                               {.accelerator = "B200",
                                                .precision = Precision::bf16,
                                                .attention = Attention::flash,
                                                .least_sequence = 4096,
                                                .most_sequence = 131072,
                                                .most_tensor = 8,
                                                .most_context = 8,
                                                .most_gpus = 8,
                                                .has_interleaved = false,
                                                .has_overlapped_p2p = false,
                                                .has_sharded_optimizer = true,
                                                .has_selective = false,
                                                .has_full = false,
                                                .has_experts = true,
                                                .has_latents = true}}};

}  // namespace

std::vector<std::string> unmeasured_settings(TrainingConfig const& config, System const& system) {
  auto const* const range = std::ranges::find_if(ranges, [&](MeasuredRange const& candidate) {
    return system.accelerator.name.find(candidate.accelerator) != std::string::npos;
  });
  if (range == ranges.end())
    return {"accelerator " + system.accelerator.name + " (no run was measured)"};
  std::vector<std::string> settings;
  std::string const on = " (measured on " + std::string{range->accelerator} + ": ";
  auto const add = [&](bool is_outside, std::string const& setting, std::string const& measured) {
    if (is_outside) settings.push_back(setting + on + measured + ")");
  };
  ModelConfig const& model = config.model;
  LayerKinds const kinds{model};
  auto const has = [&](auto predicate) {
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
      if (predicate(kinds.of_layer(layer))) return true;
    }
    return false;
  };
  add(!range->has_experts &&
          has([](LayerConfig const& layer) { return layer.experts.has_value(); }),
      "model.experts", "dense models");
  add(has([](LayerConfig const& layer) { return layer.window > 0; }), "model.window",
      "full attention");
  add(!range->has_latents && has_latents(model), "model.latent_attention",
      "keys and values by head");
  ParallelLayout const& parallel = config.parallel;
  add(model.precision != range->precision,
      "model.precision " + std::string{name_of(model.precision)},
      std::string{name_of(range->precision)});
  add(model.attention != range->attention,
      "model.attention " + std::string{name_of(model.attention)},
      std::string{name_of(range->attention)});
  std::string const least = std::to_string(range->least_sequence);
  add(model.sequence < range->least_sequence || model.sequence > range->most_sequence,
      "model.sequence " + std::to_string(model.sequence),
      range->least_sequence == range->most_sequence
          ? least
          : least + " to " + std::to_string(range->most_sequence));
  add(parallel.tensor > range->most_tensor, "parallel.tensor " + std::to_string(parallel.tensor),
      "up to " + std::to_string(range->most_tensor));
  add(world_size(parallel) > range->most_gpus, std::to_string(world_size(parallel)) + " GPUs",
      "up to " + std::to_string(range->most_gpus));
  ScheduleKind const kind = config.schedule.kind;
  bool const is_measured = kind == ScheduleKind::one_f_one_b ||
                           (kind == ScheduleKind::interleaved && range->has_interleaved);
  add(!is_measured, "schedule", range->has_interleaved ? "1f1b, interleaved" : "1f1b");
  add(parallel.pipeline > 1 && config.schedule.p2p == P2p::overlapped && !range->has_overlapped_p2p,
      "schedule.p2p overlapped", "blocking");
  add(parallel.context > range->most_context,
      "parallel.context " + std::to_string(parallel.context),
      range->most_context == 1 ? "1" : "up to " + std::to_string(range->most_context));
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
