#include "libsim/model/model_config_reader.hpp"

#include <algorithm>
#include <string>

#include "libsim/config/section_reader.hpp"
#include "libsim/config/section_writer.hpp"
#include "libsim/model/model_words.hpp"

namespace stagecraft {
namespace {

/// The keys of section `model`, for reading and for writing. The bounds are far above any model of
/// today; products of several dimensions are checked with the layout, in read_training_config().
template <typename Visitor, typename Model>
void visit_fields(Visitor& visitor, Model& model) {
  visitor.integer("layers", model.layers, {1, 100'000}, Need::required);
  visitor.integer("hidden", model.hidden, {1, 1 << 24}, Need::required);
  visitor.integer("heads", model.heads, {1, 1 << 20}, Need::required);
  visitor.integer("kv_heads", model.kv_heads, {1, 1 << 20});
  visitor.integer("head_dim", model.head_dim, {1, 1 << 24});
  visitor.integer("sequence", model.sequence, {1, 1 << 24}, Need::required);
  visitor.integer("vocabulary", model.vocabulary, {1, std::int64_t{1} << 31}, Need::required);
  visitor.integer("vocabulary_multiple", model.vocabulary_multiple, {1, 1 << 20});
  visitor.integer("ffn_hidden", model.ffn_hidden, {1, 1 << 26});
  visitor.word("activation", model.activation);
  visitor.word("norm", model.norm);
  visitor.number("norm_epsilon", model.norm_epsilon, {0, 1});
  visitor.word("positions", model.positions);
  visitor.number("rotary_base", model.rotary_base, {1, 1e12});
  visitor.integer("position_rows", model.position_rows, {1, 1 << 24});
  visitor.boolean("tied_embeddings", model.tied_embeddings);
  visitor.word("residual", model.residual);
  visitor.number("dropout", model.dropout, {0, 1});
  visitor.number("attention_dropout", model.attention_dropout, {0, 1});
  visitor.boolean("biases", model.biases);
  visitor.boolean("qkv_bias", model.qkv_bias);
  visitor.word("attention", model.attention);
  visitor.word("softmax_dropout", model.softmax_dropout);
  visitor.word("dropout_mask", model.dropout_mask);
  visitor.word("causal_mask", model.causal_mask);
  visitor.word("precision", model.precision);
}

std::string with_value(ConfigNode const& node, std::int64_t value) {
  return node.key() + " (" + std::to_string(value) + ")";
}

/// Checks keys whose default or meaning depends on others, and empties those that say what is so
/// without them: equal models have equal configurations.
void settle_optional_keys(ModelConfig& model, ConfigNode const& section) {
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
  if (attention_dropout(model) == model.dropout) model.attention_dropout.reset();
  ConfigNode const fusion = section.child("softmax_dropout");
  if (model.softmax_dropout == SoftmaxDropout::fused && fusion.exists()) {
    if (model.attention == Attention::flash) {
      fusion.warn("has no effect with attention flash");
    } else if (attention_dropout(model) == 0) {
      fusion.warn("has no effect without a dropout of attention");
    }
  }
  if (model.qkv_bias && model.biases && section.child("biases").is_sound()) {
    section.child("qkv_bias").warn("has no effect with biases true");
    model.qkv_bias = false;
  }
}

}  // namespace

ModelConfig read_model_config(ConfigNode const& section) {
  ModelConfig model;
  SectionReader reader{section};
  visit_fields(reader, model);
  reader.finish();

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
      model.positions == Positions::rotary && model.head_dim % 2 != 0) {
    positions.report("learned, or an even " + with_value(head_dim, model.head_dim));
  }
  settle_optional_keys(model, section);
  return model;
}

nlohmann::ordered_json to_json(ModelConfig const& model) {
  ModelConfig settled = model;
  settled.attention_dropout = attention_dropout(model);
  if (model.positions == Positions::learned) settled.position_rows = position_rows(model);
  SectionWriter writer;
  visit_fields(writer, settled);
  return writer.map();
}

}  // namespace stagecraft
