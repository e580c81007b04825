#include "libsim/import/huggingface/huggingface_squared_relu.hpp"

#include "libsim/import/huggingface/huggingface_parts.hpp"

namespace stagecraft {
namespace {

using Keys = HuggingfaceKeys;
using Sequence = std::optional<std::int64_t>;

/// Both families but for their norms.
void read_ungated(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_shape(keys, model);
  read_groups(keys, model);
  read_ffn(keys, Need::required, model);
  read_rotary_positions(keys, sequence, {"rope_theta"}, model);
  if (keys.find_text({"hidden_act"}).value_or("relu2") != "relu2") {
    keys.refuse("hidden_act", "relu2", "modelled as a ReLU");
  }
  keys.approximate("hidden_act", "squared ReLUs",
                   "ReLUs are modelled, with the same tensors and products");
  model.activation = Activation::relu;
  model.tied_embeddings = keys.boolean_or({"tie_word_embeddings"}, false);
  model.biases = false;
  keys.refuse_if_true("attention_bias", "the attention's biases are left out");
  keys.refuse_if_true("mlp_bias", "the MLP's biases are left out");
  read_dropout(keys, {}, 0, {"attention_dropout"}, 0, model);
}

}  // namespace

void read_arcee(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_ungated(keys, sequence, model);
  model.norm = Norm::rmsnorm;
  model.norm_epsilon = keys.number_or({"rms_norm_eps"}, {0, 1}, 1e-5);
}

/// modeling_nemotron.py: LayerNorm1P has a weight, to which 1 is added, and a bias.
void read_nemotron(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_ungated(keys, sequence, model);
  model.norm = Norm::layernorm;
  model.norm_epsilon = keys.number_or({"norm_eps"}, {0, 1}, 1e-5);
}

}  // namespace stagecraft
