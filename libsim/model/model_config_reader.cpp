#include "libsim/model/model_config_reader.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/config/section_reader.hpp"
#include "libsim/config/section_writer.hpp"
#include "libsim/model/attention_keys.hpp"
#include "libsim/model/model_keys.hpp"

namespace stagecraft {
namespace {

/// What config.json of Hugging Face calls these keys.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> huggingface_names{
    {{"num_layers", "layers"},
     {"num_hidden_layers", "layers"},
     {"n_layer", "layers"},
     {"hidden_size", "hidden"},
     {"n_embd", "hidden"},
     {"d_model", "hidden"},
     {"num_attention_heads", "heads"},
     {"num_heads", "heads"},
     {"n_head", "heads"},
     {"num_key_value_heads", "kv_heads"},
     {"intermediate_size", "ffn_hidden"},
     {"max_position_embeddings", "sequence"},
     {"seq_length", "sequence"},
     {"vocab_size", "vocabulary"},
     {"rope_theta", "rotary_base"},
     {"rms_norm_eps", "norm_epsilon"}}};

/// Checks the keys of a layer kind whose default or meaning depends on other keys, and clears those
/// that repeat a default, so that equal models have equal configurations.
void settle_layer(LayerConfig& layer, ConfigNode const& section) {
  if (attention_dropout(layer) == layer.dropout) layer.attention_dropout.reset();
  ConfigNode const fusion = section.child("softmax_dropout");
  if (layer.softmax_dropout == SoftmaxDropout::fused && fusion.exists()) {
    if (layer.attention == Attention::flash) {
      fusion.warn("has no effect with attention flash");
    } else if (attention_dropout(layer) == 0) {
      fusion.warn("has no effect without a dropout of attention");
    }
  }
  if (layer.qkv_bias && layer.biases && section.child("biases").is_sound()) {
    ConfigNode const bias = section.child("qkv_bias");
    if (bias.exists()) bias.warn("has no effect with biases true");
    layer.qkv_bias = false;
  }
  settle_norms(layer, section);
  settle_sinks(layer, section);
}

/// Experts take the place of the MLP of a sequential layer.
void check_experts(LayerConfig const& layer, ConfigNode const& section) {
  ConfigNode const residual = section.child("residual");
  if (layer.experts && layer.residual != Residual::sequential && residual.is_sound()) {
    residual.report("sequential, as the layer has experts");
  }
  ConfigNode const norms = section.child("norms");
  if (layer.experts && layer.norms != NormPlaces::pre && norms.is_sound()) {
    norms.report("pre, as the layer has experts");
  }
}

/// The same for keys of the whole model.
void settle_positions(ModelConfig& model, ConfigNode const& section) {
  ConfigNode const rows = section.child("position_rows");
  ConfigNode const sequence = section.child("sequence");
  if (rows.exists() && section.child("positions").is_sound()) {
    if (model.positions != Positions::learned) {
      rows.report_key(rows.found(), "this key only with positions learned");
    } else if (rows.is_sound() && sequence.is_sound() && position_rows(model) < model.sequence) {
      rows.report("at least " + with_value(sequence, model.sequence));
    }
  }
  if (position_rows(model) == model.sequence) model.position_rows.reset();
  ConfigNode const predicted = section.child("predicted_tokens");
  if (model.predicted_tokens > 0 && model.positions == Positions::learned && predicted.is_sound() &&
      section.child("positions").is_sound()) {
    predicted.report("0, as positions are learned");
  }
}

/// One entry of a pattern. Keys that the kind does not name are those of the model.
LayerRun read_run(ConfigNode const& item, LayerConfig const& of_model) {
  LayerRun run{.kind = of_model};
  SectionReader reader{item};
  ConfigNode const kind = reader.take("kind");
  reader.value("count", run.count, Between{1, most_layers});
  reader.finish();
  if (!kind.exists()) {
    settle_layer(run.kind, kind);
    return run;
  }
  if (ConfigNode const window = kind.child("window"); window.is_map()) refuse_period(window);
  SectionReader keys{kind};
  visit_layer(keys, run.kind);
  keys.key(Key{"experts"}, run.kind.experts);
  keys.finish();
  settle_layer(run.kind, kind);
  check_experts(run.kind, kind);
  return run;
}

/// Equal neighbours are merged into one run.
std::vector<LayerRun> read_pattern(ConfigNode const& node, LayerConfig const& of_model) {
  std::vector<LayerRun> pattern;
  if (!node.exists()) return pattern;
  if (!node.is_sequence() || node.items().empty()) {
    node.report("a list of maps with the keys kind and count");
    return pattern;
  }
  for (ConfigNode const& item : node.items()) {
    LayerRun const run = read_run(item, of_model);
    if (!pattern.empty() && pattern.back().kind == run.kind) {
      pattern.back().count += run.count;
    } else {
      pattern.push_back(run);
    }
  }
  return pattern;
}

/// Derives the number of layers from the pattern, and clears a pattern that says nothing more than
/// a model without one.
void settle_pattern(ModelConfig& model, ConfigNode const& section) {
  ConfigNode const layers = section.child("layers");
  if (!section.child("pattern").is_sound() && !layers.exists()) {
    section.diagnostics().mark_unsound(section.key_of("layers"));
  }
  if (model.pattern.empty()) return;
  std::int64_t const of_pattern = pattern_layers(model);
  if (!layers.exists()) {
    model.layers = of_pattern;
    if (of_pattern > most_layers) {
      section.child("pattern").report("a pattern of " + std::to_string(of_pattern) + " layers",
                                      "at most " + std::to_string(most_layers));
    }
  } else if (layers.is_sound() && model.layers % of_pattern != 0) {
    layers.report("a multiple of the layers of model.pattern (" + std::to_string(of_pattern) + ")");
  }
  LayerConfig const& own = model;
  if (model.pattern.size() == 1 && model.pattern.front().kind == own) model.pattern.clear();
}

nlohmann::ordered_json layer_map(LayerConfig const& layer) {
  LayerConfig settled = layer;
  settled.attention_dropout = attention_dropout(layer);
  SectionWriter writer;
  visit_layer(writer, std::as_const(settled));
  writer.put("experts", to_json(layer.experts));
  return writer.map();
}

/// The inverse of read_pattern(): for each kind, the keys that differ from the model's.
nlohmann::ordered_json pattern_json(ModelConfig const& model) {
  nlohmann::ordered_json const own = layer_map(model);
  auto list = nlohmann::ordered_json::array();
  for (LayerRun const& run : model.pattern) {
    nlohmann::ordered_json kind = layer_map(run.kind);
    for (auto const& [key, value] : own.items()) {
      if (kind.at(key) == value) kind.erase(key);
    }
    list.push_back({{"kind", kind}, {"count", run.count}});
  }
  return list;
}

/// What other programs call a precision.
constexpr std::array<std::pair<std::string_view, Precision>, 9> other_precisions{
    {{"bfloat16", Precision::bf16},
     {"bf16-mixed", Precision::bf16},
     {"float16", Precision::fp16},
     {"half", Precision::fp16},
     {"16-mixed", Precision::fp16},
     {"float32", Precision::fp32},
     {"float", Precision::fp32},
     {"float64", Precision::fp64},
     {"double", Precision::fp64}}};

/// Reports precisions under other names, and those of matrix products that users look for and that
/// are not modelled.
void refuse_other_precisions(ConfigNode const& precision) {
  for (auto const& [word, meant] : other_precisions) {
    if (!precision.reads(word)) continue;
    precision.report(accepted_names<Precision>() + hint_of(name_of(meant)));
  }
  for (std::string_view const word : {"fp8", "fp8_hybrid", "fp8-hybrid", "mxfp8", "nvfp4", "fp4"}) {
    if (!precision.reads(word)) continue;
    precision.report(accepted_names<Precision>() +
                     "; products in 8 bits are key low_precision of the run, such as "
                     "`low_precision: current`, beside bf16 here");
  }
}

/// 8k is 8000 tokens, which few who write it mean.
void warn_of_thousands(ConfigNode const& sequence, std::int64_t tokens) {
  constexpr std::int64_t usual_multiple = 128;
  if (!sequence.is_scalar() || !sequence.is_sound() || tokens % usual_multiple == 0) return;
  std::string const text = sequence.text().value_or("");
  if (!text.ends_with('k') && !text.ends_with('K')) return;
  std::string const number = text.substr(0, text.size() - 1);
  sequence.warn("is " + std::to_string(tokens) + " tokens, as k is 1000; " + number +
                "Ki is with 1024");
}

/// A model with several keys of a config.json was copied from one.
void name_import(ConfigNode const& section) {
  std::vector<std::string> found;
  for (auto const& [other, key] : huggingface_names) {
    if (section.child(std::string{other}).exists()) found.emplace_back(other);
  }
  if (found.size() < 2) return;
  section.report("keys of Hugging Face (" + joined(found) + ")",
                 "keys of a model file; `stagecraft import huggingface config.json` makes one");
}

}  // namespace

ModelConfig read_model_config(ConfigNode const& section) {
  ModelConfig model;
  name_import(section);
  refuse_other_precisions(section.child("precision"));
  SectionReader reader{section};
  ConfigNode const pattern = section.child("pattern");
  visit_keys(reader, model, pattern.exists() ? Need::optional : Need::required);
  for (auto const& [other, key] : huggingface_names) reader.synonym(other, key);
  reader.finish();

  warn_of_thousands(section.child("sequence"), model.sequence);
  settle_latents(model, section);
  ConfigNode const hidden = section.child("hidden");
  ConfigNode const heads = section.child("heads");
  ConfigNode const kv_heads = section.child("kv_heads");
  ConfigNode const head_dim = section.child("head_dim");
  if (model.ffn_hidden == 0) model.ffn_hidden = 4 * model.hidden;
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (heads.is_sound() && kv_heads.is_sound() && model.heads % model.kv_heads != 0) {
    kv_heads.report("a divisor of " + with_value(heads, model.heads));
  }
  if (model.head_dim == 0 && hidden.is_sound() && heads.is_sound() && head_dim.is_sound()) {
    if (model.hidden % model.heads != 0) {
      heads.report("a divisor of " + with_value(hidden, model.hidden) + ", or " + head_dim.key() +
                   " given");
    }
    model.head_dim = std::max<std::int64_t>(1, model.hidden / model.heads);
  }
  ConfigNode const positions = section.child("positions");
  if (heads.is_sound() && head_dim.is_sound() && positions.is_sound() &&
      model.positions == Positions::rotary && !has_latents(model) && model.head_dim % 2 != 0) {
    positions.report("learned, or an even " + with_value(head_dim, model.head_dim));
  }
  model.pattern = read_pattern(pattern, model);
  settle_positions(model, section);
  settle_layer(model, section);
  settle_pattern(model, section);
  check_experts(model, section);
  ConfigNode const first_dense = section.child("experts").child("first_dense");
  if (model.experts && first_dense.is_sound() && section.child("layers").is_sound() &&
      model.experts->first_dense >= model.layers) {
    first_dense.report("less than " + with_value(section.child("layers"), model.layers));
  }
  check_latents(model, section);
  apply_window_period(model, section);
  return model;
}

nlohmann::ordered_json to_json(ModelConfig const& model) {
  ModelConfig settled = model;
  settled.attention_dropout = attention_dropout(model);
  if (model.positions == Positions::learned) settled.position_rows = position_rows(model);
  SectionWriter writer;
  visit_keys(writer, std::as_const(settled));
  if (!model.pattern.empty()) writer.put("pattern", pattern_json(model));
  return writer.map();
}

}  // namespace stagecraft
