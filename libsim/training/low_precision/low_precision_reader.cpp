#include "libsim/training/low_precision/low_precision_reader.hpp"

#include <string>
#include <utility>

#include "libsim/config/section_reader.hpp"
#include "libsim/config/section_writer.hpp"
#include "libsim/model/layer_kinds.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/program/low_library.hpp"
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
    must_be(is_of_4 || library().has_format || low().format == LowFormat::automatic ||
                (low().format == LowFormat::hybrid) == find_recipe(low().recipe)->is_hybrid,
            "format", name_of(low().format),
            "auto" + why() + ", to which torchao's recipe of this name gives one format");
    must_be(low().transposes != KeptTransposes::make_again || library().transposes_weights,
            "transposes", "make_again",
            "auto or keep: only deepseek transposes weights again in each backward");
    bool const is_mx = low().recipe == Recipe::mxfp8;
    must_be(!low().head || is_mx || library().is_of_linears, "head", "true",
            "false" + why() + "; Megatron-LM's head is in 8 bits with mxfp8 alone");
    bool const keeps_layers = low().keep_high.first > 0 || low().keep_high.last > 0;
    must_be(!keeps_layers || low().recipe != Recipe::delayed,
            low().keep_high.first > 0 ? "keep_high.first" : "keep_high.last",
            to_text(low().keep_high.first > 0 ? low().keep_high.first : low().keep_high.last),
            "0" + why() + ", which has all layers");
    bool const is_high = gathers_high(library(), *find_recipe(low().recipe));
    must_be(low().gather != LowGather::high || is_high, "gather", "high",
            "auto or low: operands are quantised before they are gathered");
    must_be(low().gather != LowGather::low || !is_high, "gather", "low",
            "auto or high" + why() + ": all that travels has 16 bits");
    must_be(has_recipe(library(), low().recipe), "implementation", name_of(low().implementation),
            names_of_libraries([&](auto const& row) { return has_recipe(row, low().recipe); }) +
                why() + "; " + std::string{library().why_others});
    must_be(low().dispatch == LowOrHigh::high || low().recipe == Recipe::blockwise, "dispatch",
            "low", "high" + why() + "; tokens travel with the scales of blockwise alone");
  }

  LibraryTraits const& library() const { return traits_of(low().implementation); }
  std::string whose() const {
    return ", as low_precision.implementation is " + std::string{name_of(low().implementation)};
  }

  void check_library() const {
    if (!library().splits_linears && config_.parallel.tensor > 1) {
      refuse_key("implementation", name_of(low().implementation),
                 "transformer_engine, as parallel.tensor is " + to_text(config_.parallel.tensor) +
                     "; deepseek splits no linear layer");
    }
    if (library().casts_weights && config_.parallel.tensor > 1 && !config_.parallel.sequence) {
      refuse("parallel.sequence", "false",
             "true" + whose() + ": torchtitan splits sequences where it splits linear layers");
    }
    if (!library().has_experts && has_experts(config_.model)) {
      refuse_key("implementation", name_of(low().implementation),
                 "another, as the model has experts; products of experts with torchao, a "
                 "prototype of it, are not modelled");
    }
  }

  /// A library that quantises linear layers alone has none of the other keys.
  void check_parts() const {
    if (!library().is_of_linears) return;
    auto const must_be = [&](bool holds, std::string_view key, std::string_view found,
                             std::string const& accepted, std::string const& instead = "") {
      if (!holds) refuse_key(key, found, accepted + whose() + instead);
    };
    must_be(low().parameters == LowOrHigh::high, "parameters", "low", "high",
            "; sharding.parameter_dtype: low gathers them in 8 bits");
    must_be(low().transposes == KeptTransposes::automatic, "transposes",
            std::string{name_of(low().transposes)}, "auto", ", which keeps no copies of weights");
    must_be(!low().attention, "attention", "true", "false");
    must_be(!low().head, "head", "true", "false");
    must_be(!low().activation_input, "activation_input", "true", "false");
    must_be(!low().keep_high.wgrad || low().recipe == Recipe::rowwise, "keep_high.wgrad", "true",
            "false", "; of its recipes rowwise_with_gw_hp does so, which is rowwise with this key");
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
    if (kept.wgrad && (library().fuses_activation || low().dispatch == LowOrHigh::low)) {
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
      if (!is_on_input && !(library().sends_low_gradients && run.kind.experts->biases)) continue;
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
    if (ShardingTraits const& sharding = config_.sharding.traits();
        !may_quantise(low(), sharding)) {
      bool const casts = library().casts_weights;
      std::string const why_not{casts ? "torchtitan has these" : sharding.why_high};
      refuse("sharding", name_of(config_.sharding.kind),
             names_of_kinds([this](auto const& kind) { return may_quantise(low(), kind); }) +
                 (casts ? whose() : why()) + ": " + why_not);
    }
    if (low().parameters == LowOrHigh::low && !library().is_of_linears) {
      std::string const wrong = wrong_for_low_parameters(config_);
      if (!wrong.empty()) refuse_key("parameters", "low", "high, or " + wrong);
    }
    check_library();
    check_dispatch();
    if (library().is_of_linears) {
      check_parts();
    } else {
      check_activation();
      check_head();
      check_attention();
    }
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
