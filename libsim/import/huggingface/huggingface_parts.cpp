#include "libsim/import/huggingface/huggingface_parts.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "libsim/import/number_ranges.hpp"

namespace stagecraft {
namespace {

constexpr IntegerRange head_counts{1, 1 << 20};

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Llama 3's scaling of wavelengths, if its constants are those of the model files. Any other is a
/// model that the keys cannot say.
void read_rotary_scaling(HuggingfaceKeys& keys, ModelConfig& model) {
  for (std::string_view const key : {"rope_scaling", "rope_parameters"}) {
    auto const number = [&](std::string_view name, double fallback) {
      return keys.find_nested_number({key, name}, {0, 1e12}).value_or(fallback);
    };
    std::string const type = keys.nested_text(key, {"rope_type", "type"});
    if (type.empty() || type == "default") continue;
    bool const is_known = number("low_freq_factor", 0) == 1 && number("high_freq_factor", 0) == 4 &&
                          number("original_max_position_embeddings", 0) == 8192;
    if (type == "llama3" && is_known) {
      model.rotary_scaling = number("factor", 1);
    } else {
      keys.lose(std::string{key} + " (" + type + ")");
    }
  }
}

}  // namespace

void read_shape(HuggingfaceKeys& keys, ModelConfig& model) {
  model.layers = keys.integer({"num_hidden_layers", "n_layer", "num_layers"}, {1, 100'000});
  model.hidden = keys.integer({"hidden_size", "n_embd", "d_model"}, widths);
  model.heads = keys.integer({"num_attention_heads", "n_head"}, head_counts);
  model.vocabulary = keys.integer({"vocab_size"}, {1, std::int64_t{1} << 31});
  model.kv_heads = model.heads;
}

std::optional<std::int64_t> read_sequence(HuggingfaceKeys& keys,
                                          std::optional<std::int64_t> sequence,
                                          ModelConfig& model) {
  HuggingfaceKeys::Names const names = {"max_position_embeddings", "n_positions", "n_ctx",
                                        "max_sequence_length"};
  std::optional<std::int64_t> const longest =
      sequence ? keys.find_integer(names, widths)
               : std::optional{keys.integer(names, widths, ", or --sequence N")};
  model.sequence = sequence ? *sequence : longest.value_or(0);
  return longest;
}

void read_learned_positions(HuggingfaceKeys& keys,
                            std::optional<std::int64_t> sequence,
                            std::int64_t offset,
                            ModelConfig& model) {
  model.positions = Positions::learned;
  std::optional<std::int64_t> const longest = read_sequence(keys, sequence, model);
  if (!longest || *longest == 0) return;
  model.position_rows = *longest + offset;
  if (sequence && *sequence > *longest) {
    keys.refuse("max_position_embeddings",
                "at least the length that --sequence asks for (" + std::to_string(*sequence) + ")",
                "the table of positions is modelled with a row for each token");
    model.position_rows = *sequence + offset;
  }
}

void read_rotary_positions(HuggingfaceKeys& keys,
                           std::optional<std::int64_t> sequence,
                           HuggingfaceKeys::Names base_keys,
                           ModelConfig& model,
                           double usual_part) {
  model.positions = Positions::rotary;
  read_sequence(keys, sequence, model);
  NumberRange const range{1, 1e12};
  auto const nested = keys.find_nested_number({"rope_parameters", "rope_theta"}, range);
  auto const of_full =
      keys.find_nested_number({"rope_parameters", "full_attention", "rope_theta"}, range);
  if (nested) {
    model.rotary_base = *nested;
    keys.note("rotary_base is rope_parameters.rope_theta");
  } else if (of_full) {
    model.rotary_base = *of_full;
    keys.note(
        "rotary_base is rope_parameters.full_attention.rope_theta, also of layers with a window");
  } else {
    model.rotary_base = keys.number_or(base_keys, range, 10000);
  }
  read_rotary_scaling(keys, model);
  NumberRange const parts{0, 1, true};
  auto const part = keys.find_number({"partial_rotary_factor", "rotary_pct"}, parts);
  model.rotary_fraction =
      part ? *part
           : keys.find_nested_number({"rope_parameters", "partial_rotary_factor"}, parts)
                 .value_or(usual_part);
}

void read_ffn(HuggingfaceKeys& keys, Need need, ModelConfig& model) {
  HuggingfaceKeys::Names const names = {"intermediate_size", "n_inner", "ffn_dim",
                                        "ffn_hidden_size"};
  IntegerRange const range{1, 1 << 26};
  if (need == Need::required) {
    model.ffn_hidden = keys.integer(names, range);
  } else {
    model.ffn_hidden = keys.find_integer(names, range).value_or(4 * model.hidden);
  }
}

void read_activation(HuggingfaceKeys& keys,
                     HuggingfaceKeys::Names names,
                     std::string_view fallback,
                     Gate gate,
                     ModelConfig& model) {
  std::string const word = keys.text_or(names, fallback);
  bool const is_gelu = is_one_of(
      word, {"gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_python", "quick_gelu"});
  bool const is_silu = is_one_of(word, {"silu", "swish"});
  if (gate == Gate::gated) {
    model.activation = is_gelu ? Activation::geglu : Activation::swiglu;
  } else {
    model.activation = word == "relu" ? Activation::relu : Activation::gelu;
  }
  std::string const key{*std::find_if(names.begin(), names.end() - 1,
                                      [&](std::string_view name) { return keys.has(name); })};
  if (is_gelu && word != "gelu") {
    keys.note(key + " " + word + " is modelled as gelu: the same tensors and the same time");
  } else if (gate == Gate::none && is_silu) {
    keys.note(key + " " + word + " without a gate is modelled as gelu: the same tensors");
  } else if (!is_gelu && !is_silu && (gate == Gate::gated || word != "relu")) {
    keys.refuse(key, gate == Gate::gated ? "silu, gelu" : "gelu, relu, silu",
                "modelled as " + std::string{gate == Gate::gated ? "swiglu" : "gelu"});
  }
}

void read_dropout(HuggingfaceKeys& keys,
                  HuggingfaceKeys::Names hidden,
                  double hidden_fallback,
                  HuggingfaceKeys::Names attention,
                  double attention_fallback,
                  ModelConfig& model) {
  NumberRange const range{0, 1};
  model.dropout = hidden.size() > 0 ? keys.number_or(hidden, range, hidden_fallback) : 0;
  model.attention_dropout = keys.number_or(attention, range, attention_fallback);
}

void read_groups(HuggingfaceKeys& keys, ModelConfig& model) {
  model.kv_heads = keys.find_integer({"num_key_value_heads"}, head_counts).value_or(model.heads);
  model.head_dim = keys.find_integer({"head_dim"}, widths).value_or(0);
}

}  // namespace stagecraft
