#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "libsim/model/layer_kinds.hpp"
#include "libsim/program/low_library.hpp"
#include "libsim/program/quantisation.hpp"
#include "libsim/training/low_precision/low_precision_reader.hpp"

namespace stagecraft {

bool may_quantise(LowPrecision const& low, ShardingTraits const& sharding) {
  if (low.recipe == Recipe::none) return true;
  return traits_of(low.implementation).casts_weights ? sharding.may_cast_weights
                                                     : sharding.why_high.empty();
}

std::vector<std::pair<std::string_view, std::int64_t>> unaligned_widths(
    TrainingConfig const& config, LayerConfig const& layer, Recipe recipe) {
  std::vector<std::pair<std::string_view, std::int64_t>> widths;
  std::int64_t const t = config.parallel.tensor;
  auto const check = [&](std::string_view key, std::int64_t value, std::int64_t per_rank) {
    if (per_rank % find_recipe(recipe)->alignment != 0) widths.emplace_back(key, value);
  };
  ModelConfig const& model = config.model;
  check("model.hidden", model.hidden, model.hidden);
  check("model.head_dim", model.head_dim, model.heads / t * model.head_dim);
  if (layer.experts) {
    check("model.experts.ffn_hidden", layer.experts->ffn_hidden,
          layer.experts->ffn_hidden / config.parallel.expert_tensor);
  } else {
    check("model.ffn_hidden", layer.ffn_hidden, layer.ffn_hidden / t);
  }
  return widths;
}

std::string discarded_without_scale(TrainingConfig const& config, Recipe recipe) {
  if (recipe != Recipe::delayed) return "";
  for (RecomputePolicy const& policy : config.recompute) {
    if (policy.granularity != RecomputeGranularity::selective) continue;
    for (std::string const& name : policy.modules) {
      if (name == "layernorm" || name == "moe_act") return name;
    }
  }
  return "";
}

std::string wrong_for_low_parameters(TrainingConfig const& config) {
  if (!config.sharding.traits().may_keep_low_weights) {
    return "sharding: " +
           names_of_kinds([](auto const& kind) { return kind.may_keep_low_weights; }) +
           ", whose master copies are quantised";
  }
  if (config.offload.optimizer > 0) return "offload.optimizer: 0, as the host sends 16 bits";
  if (config.schedule.step == StepSync::post_validated) {
    return "schedule.step: barrier, as a step ahead makes parameters of 16 bits";
  }
  return "";
}

std::string wrong_for_stored_input(TrainingConfig const& config) {
  for (LayerRun const& run : layer_runs(config.model)) {
    if (run.kind.activation != Activation::swiglu) {
      return "model.activation: swiglu, whose kernel stores it";
    }
    if (run.kind.experts && !run.kind.experts->fused_weighting) {
      return "model.experts.fused_weighting: true, whose kernel stores it";
    }
  }
  if (traits_of(config.low_precision.implementation).fuses_activation) return "";
  for (RecomputePolicy const& policy : config.recompute) {
    if (policy.granularity != RecomputeGranularity::selective) continue;
    if (std::ranges::find(policy.modules, "moe_act") == policy.modules.end()) continue;
    return "recompute.modules without moe_act, which keeps it in 16 bits";
  }
  return "";
}

}  // namespace stagecraft
