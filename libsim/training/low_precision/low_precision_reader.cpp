#include "libsim/training/low_precision/low_precision_reader.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "libsim/config/section_reader.hpp"
#include "libsim/config/section_writer.hpp"
#include "libsim/model/layer_kinds.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/program/quantisation.hpp"
#include "libsim/training/combination_check.hpp"
#include "libsim/training/training_keys.hpp"

namespace stagecraft {
namespace {

class LowPrecisionCheck : CombinationCheck {
 public:
  using CombinationCheck::CombinationCheck;

  void check() const {
    if (low().recipe == Recipe::none || !sound({"low_precision"})) return;
    if (find_recipe(low().recipe) == nullptr) return refuse_recipe();
    check_section();
    if (!sound({"model", "parallel", "recompute", "sharding"})) return;
    check_others();
    for (LayerRun const& run : layer_runs(config_.model)) check_widths(run.kind);
  }

 private:
  LowPrecision const& low() const { return config_.low_precision; }
  std::string why() const { return ", as low_precision is " + std::string{name_of(low().recipe)}; }

  /// Reports a key of the section, or the section itself if it is a name.
  void refuse_key(std::string_view key, std::string_view value, std::string accepted) const {
    refuse("low_precision." + std::string{key}, value, std::move(accepted));
  }

  void refuse_recipe() const {
    std::string accepted{name_of(Recipe::none)};
    for (RecipeTraits const& row : recipe_traits)
      accepted += ", " + std::string{name_of(row.recipe)};
    std::string_view const key =
        root_.child("low_precision").is_map() ? "low_precision.recipe" : "low_precision";
    refuse(key, name_of(low().recipe),
           accepted + "; " + std::string{name_of(low().recipe)} + " is not modelled");
  }

  void check_section() const {
    auto const must_be = [&](bool holds, std::string_view key, std::string_view found,
                             std::string const& accepted) {
      if (!holds) refuse_key(key, found, accepted);
    };
    bool const is_of_4 = element_bits(find_recipe(low().recipe)->elements) == 4;
    must_be(!is_of_4 || low().format == LowFormat::automatic, "format", name_of(low().format),
            "auto: 4 bits have one format");
    must_be(low().transposes != KeptTransposes::make_again, "transposes", "make_again",
            "auto or keep: transposing weights again in each backward is not modelled");
    bool const is_mx = low().recipe == Recipe::mxfp8;
    must_be(!low().head || is_mx, "head", "true",
            "false" + why() + "; Megatron-LM's head is in 8 bits with mxfp8 alone");
    bool const keeps_layers = low().keep_high.first > 0 || low().keep_high.last > 0;
    must_be(!keeps_layers || low().recipe != Recipe::delayed,
            low().keep_high.first > 0 ? "keep_high.first" : "keep_high.last",
            to_text(low().keep_high.first > 0 ? low().keep_high.first : low().keep_high.last),
            "0" + why() + ", which has all layers");
    must_be(low().gather != LowGather::high, "gather", "high",
            "auto or low: operands are quantised before they are gathered");
    must_be(low().implementation != LowLibrary::torchao, "implementation", "torchao",
            "transformer_engine, deepseek; torchao is not modelled");
    must_be(!is_deepseek() || low().recipe == Recipe::blockwise, "implementation", "deepseek",
            "transformer_engine" + why() + "; deepseek has blockwise alone");
    must_be(low().dispatch == LowOrHigh::high || low().recipe == Recipe::blockwise, "dispatch",
            "low", "high" + why() + "; tokens travel with the scales of blockwise alone");
  }

  bool is_deepseek() const { return low().implementation == LowLibrary::deepseek; }

  void check_deepseek() const {
    if (!is_deepseek() || config_.parallel.tensor == 1) return;
    refuse_key("implementation", "deepseek",
               "transformer_engine, as parallel.tensor is " + to_text(config_.parallel.tensor) +
                   "; deepseek splits no linear layer");
  }

  void check_head() const {
    if (!low().head) return;
    ModelConfig const& model = config_.model;
    if (model.tied_embeddings) {
      refuse_key("head", "true", "false, as model.tied_embeddings is true");
    }
    std::int64_t const multiple = find_recipe(low().recipe)->alignment;
    if (model.vocabulary_multiple % multiple == 0) return;
    refuse("model.vocabulary_multiple", model.vocabulary_multiple,
           "a multiple of " + to_text(multiple) + ", as low_precision.head is true");
  }

  void check_attention() const {
    if (!low().attention) return;
    if (config_.model.attention != Attention::flash) {
      refuse_key("attention", "true", "false, as model.attention is unfused");
    }
    if (config_.parallel.context > 1) {
      refuse_key("attention", "true",
                 "false, as parallel.context is " + to_text(config_.parallel.context) +
                     ": keys that travel in 8 bits are not modelled");
    }
  }

  void check_kept() const {
    KeepHigh const& kept = low().keep_high;
    std::int64_t const layers = config_.model.layers;
    if (kept.first + kept.last > layers) {
      refuse_key("keep_high.first", to_text(kept.first),
                 "at most " + to_text(layers) + " layers together with keep_high.last");
    }
    if (kept.wgrad && (is_deepseek() || low().dispatch == LowOrHigh::low)) {
      refuse_key("keep_high.wgrad", "true",
                 "false, as tokens or activations are made in 8 bits alone");
    }
  }

  void check_activation() const {
    if (!low().activation_input) return;
    std::string const wrong = wrong_for_stored_input(config_);
    if (!wrong.empty()) refuse_key("activation_input", "true", "false, or " + wrong);
  }

  void check_dispatch() const {
    if (low().dispatch == LowOrHigh::high || !sound({"dispatch"})) return;
    if (config_.dispatch != Dispatch::deepep) {
      return refuse_key("dispatch", "low",
                        "high, as dispatch is " + std::string{name_of(config_.dispatch)} +
                            "; with deepep tokens travel in 8 bits");
    }
    for (LayerRun const& run : layer_runs(config_.model)) {
      if (!run.kind.experts) continue;
      bool const is_on_input = run.kind.experts->probabilities_on == ProbabilitiesOn::input;
      if (!is_on_input && !(is_deepseek() && run.kind.experts->biases)) continue;
      return refuse_key("dispatch", "low",
                        is_on_input ? "high, as model.experts.probabilities_on is input: what "
                                      "arrives is scaled before it is quantised"
                                    : "high, as model.experts.biases is true: their gradients "
                                      "need 16 bits");
    }
  }

  void check_others() const {
    Precision const precision = config_.model.precision;
    if (precision != Precision::bf16 && precision != Precision::fp16) {
      refuse("model.precision", name_of(precision), "bf16 or fp16" + why());
    }
    std::string const why_high{config_.sharding.traits().why_high};
    if (!why_high.empty()) {
      refuse("sharding", name_of(config_.sharding.kind),
             names_of_kinds([](auto const& kind) { return kind.why_high.empty(); }) + why() + ": " +
                 why_high);
    }
    if (low().parameters == LowOrHigh::low) {
      std::string const wrong = wrong_for_low_parameters(config_);
      if (!wrong.empty()) refuse_key("parameters", "low", "high, or " + wrong);
    }
    check_deepseek();
    check_dispatch();
    check_activation();
    check_head();
    check_attention();
    check_kept();
    if (config_.parallel.shared_expert_overlap) {
      refuse("parallel.shared_expert_overlap", "true", "false" + why());
    }
    std::string const discarded = discarded_without_scale(config_, low().recipe);
    if (discarded.empty()) return;
    refuse("recompute.modules", discarded,
           "a list without " + discarded + why() +
               ": quantising its outputs again would record their largest element twice");
  }

  void check_widths(LayerConfig const& layer) const {
    std::int64_t const multiple = find_recipe(low().recipe)->alignment;
    for (auto const& [key, value] : unaligned_widths(config_, layer, low().recipe)) {
      if (!sound({key})) continue;
      refuse(key, value, "one that gives each rank a multiple of " + to_text(multiple) + why());
    }
  }
};

}  // namespace

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
  if (config.low_precision.implementation == LowLibrary::deepseek) return "";
  for (RecomputePolicy const& policy : config.recompute) {
    if (policy.granularity != RecomputeGranularity::selective) continue;
    if (std::ranges::find(policy.modules, "moe_act") == policy.modules.end()) continue;
    return "recompute.modules without moe_act, which keeps it in 16 bits";
  }
  return "";
}

LowPrecision read_low_precision(ConfigNode const& section) {
  LowPrecision low;
  if (!section.exists()) return low;
  if (!section.is_map()) {
    low.recipe = section.word<Recipe>().value_or(low.recipe);
    return low;
  }
  SectionReader reader{section};
  visit_keys(reader, low);
  reader.finish();
  return low;
}

nlohmann::ordered_json to_json(LowPrecision const& low) {
  if (low == LowPrecision{.recipe = low.recipe}) return name_of(low.recipe);
  SectionWriter writer;
  visit_keys(writer, low);
  return writer.map();
}

void check_low_precision(TrainingConfig const& config, ConfigNode const& root) {
  LowPrecisionCheck{config, root}.check();
}

}  // namespace stagecraft
