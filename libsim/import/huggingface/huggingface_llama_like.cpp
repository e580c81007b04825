#include "libsim/import/huggingface/huggingface_llama_like.hpp"

#include <algorithm>
#include <string>

#include "libsim/import/huggingface/huggingface_parts.hpp"
#include "libsim/import/huggingface/huggingface_windows.hpp"

namespace stagecraft {
namespace {

using Keys = HuggingfaceKeys;
using Sequence = std::optional<std::int64_t>;

constexpr NumberRange caps{1e-3, 1e9};

/// What all Gemmas share.
void read_gemma_like(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, true, model);
  model.activation = Activation::geglu;
  keys.refuse_if_true("attention_bias", "the attention's biases are left out");
  keys.note("Gemma scales embeddings by sqrt(h): one small product per token, left out");
}

double read_cap(Keys& keys, std::string_view key) {
  return keys.find_number({key}, caps).value_or(0);
}

/// Gemma with capped scores and logits, and windows in every other layer.
void read_gemma_with_caps(Keys& keys, Sequence sequence, NormPlaces norms, ModelConfig& model) {
  read_gemma_like(keys, sequence, model);
  model.norms = norms;
  model.attention_softcap = keys.number_or({"attn_logit_softcapping"}, caps, 50);
  model.logit_softcap = keys.number_or({"final_logit_softcapping"}, caps, 30);
  read_windows(keys, {.full_every = 2}, model);
  keys.without_effect({"hidden_activation", "query_pre_attn_scalar", "cache_implementation",
                       "use_bidirectional_attention"});
}

}  // namespace

void read_llama_like(Keys& keys, Sequence sequence, bool is_tied, ModelConfig& model) {
  read_shape(keys, model);
  read_groups(keys, model);
  read_ffn(keys, Need::required, model);
  read_rotary_positions(keys, sequence, {"rope_theta"}, model);
  read_activation(keys, {"hidden_act"}, "silu", Gate::gated, model);
  model.norm = Norm::rmsnorm;
  model.norm_epsilon = keys.number_or({"rms_norm_eps"}, {0, 1}, 1e-6);
  model.tied_embeddings = keys.boolean_or({"tie_word_embeddings"}, is_tied);
  model.biases = false;
  read_dropout(keys, {}, 0, {"attention_dropout"}, 0, model);
}

void read_qkv_bias(Keys& keys, bool fallback, ModelConfig& model) {
  model.qkv_bias = keys.boolean_or({"attention_bias"}, fallback);
}

void read_gemma(Keys& keys, Sequence sequence, ModelConfig& model) {
  // modeling_gemma.py: the gate of the MLP is a GELU, whatever hidden_act is in old files.
  read_gemma_like(keys, sequence, model);
  if (auto const word = keys.find_text({"hidden_activation"});
      word && word->rfind("gelu", 0) != 0) {
    keys.refuse("hidden_activation", "gelu, gelu_pytorch_tanh", "modelled as a gated GELU");
  }
}

/// VaultGemma: Gemma with capped scores and logits, and windows in every other layer.
void read_vaultgemma(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_gemma_with_caps(keys, sequence, NormPlaces::pre, model);
}

/// Gemma 2: the same with norms on both sides.
void read_gemma2(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_gemma_with_caps(keys, sequence, NormPlaces::both, model);
}

/// Gemma 3 without images: norms of queries and keys too, windows in five of six layers, where
/// positions have another base.
void read_gemma3(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_gemma_like(keys, sequence, model);
  model.norms = NormPlaces::both;
  model.qk_norm = QkNorm::head;
  model.attention_softcap = read_cap(keys, "attn_logit_softcapping");
  model.logit_softcap = read_cap(keys, "final_logit_softcapping");
  auto const period =
      keys.find_integer({"sliding_window_pattern", "_sliding_window_pattern"}, {1, 1 << 20});
  read_windows(keys, {.full_every = period.value_or(6)}, model);
  double const local = keys.find_number({"rope_local_base_freq"}, {1, 1e12}).value_or(10000);
  if (model.window > 0) model.rotary_base = local;
  for (LayerRun& run : model.pattern) {
    if (run.kind.window > 0) run.kind.rotary_base = local;
  }
  keys.without_effect({"hidden_activation", "query_pre_attn_scalar", "cache_implementation",
                       "use_bidirectional_attention"});
}

/// GLM 4 9B of 2024: Llama with biases of queries, keys and values and rotary positions on half of
/// each head.
void read_glm(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  read_qkv_bias(keys, true, model);
}

/// GLM 4 of 2025: as before, with norms after attention and MLP too.
void read_glm4(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_glm(keys, sequence, model);
  model.norms = NormPlaces::both;
}

/// Qwen3 without experts: Llama with norms of queries and keys, each of a head.
void read_qwen3(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  model.qk_norm = QkNorm::head;
  if (keys.find_boolean({"attention_bias"}).value_or(false)) {
    keys.refuse("attention_bias", "false",
                "the bias of the attention's output, h per layer, is left out");
    model.qkv_bias = true;
  }
  read_windows(keys, windows_behind_first(keys), model);
}

/// Hunyuan without experts: as Qwen3.
void read_hunyuan(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  model.qk_norm = QkNorm::head;
  keys.refuse_if_true("attention_bias", "the attention's biases are left out");
  keys.without_effect({"eod_token_id", "sep_token_id"});
}

/// StableLM: Llama with layer norms, and perhaps biases of queries, keys and values.
void read_stablelm(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_shape(keys, model);
  read_groups(keys, model);
  read_ffn(keys, Need::required, model);
  read_rotary_positions(keys, sequence, {"rope_theta"}, model, 0.25);
  read_activation(keys, {"hidden_act"}, "silu", Gate::gated, model);
  model.norm = Norm::layernorm;
  model.norm_epsilon = keys.number_or({"layer_norm_eps"}, {0, 1}, 1e-5);
  model.tied_embeddings = keys.boolean_or({"tie_word_embeddings"}, false);
  model.biases = false;
  model.qkv_bias = keys.find_boolean({"use_qkv_bias"}).value_or(false);
  read_dropout(keys, {"hidden_dropout"}, 0, {"attention_dropout"}, 0, model);
  // modeling_stablelm.py: parallel layers have no norm before the MLP.
  if (keys.find_boolean({"use_parallel_residual"}).value_or(false)) {
    model.residual = Residual::parallel_one_norm;
  }
  keys.refuse_if_true("qk_layernorm", "a layer norm for each head of queries and keys is left out");
}

/// OLMo 2: norms of queries and keys over all heads, and norms after attention and MLP in place of
/// those before.
void read_olmo2(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  model.norms = NormPlaces::post;
  model.qk_norm = QkNorm::full;
  keys.refuse_if_true("attention_bias", "the attention's biases are left out");
  keys.without_effect({"layer_types", "clip_qkv"});
}

/// OLMo 3: OLMo 2 with windows in three of four layers.
void read_olmo3(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  model.norms = NormPlaces::post;
  model.qk_norm = QkNorm::full;
  keys.refuse_if_true("attention_bias", "the attention's biases are left out");
  read_windows(keys, {.full_every = 4}, model);
}

/// EXAONE 4: norms of queries and keys of a head, norms after attention and MLP, windows.
void read_exaone4(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  model.norms = NormPlaces::post;
  model.qk_norm = QkNorm::head;
  // The pattern is a number of layers, or letters such as LLLG.
  auto const letters = keys.find_text({"sliding_window_pattern"});
  std::int64_t period = 4;
  if (letters && !letters->empty()) {
    bool const is_number = letters->find_first_not_of("0123456789") == std::string::npos;
    period =
        is_number ? std::stoll(letters->substr(0, 6)) : static_cast<std::int64_t>(letters->size());
  }
  read_windows(keys, {.full_every = std::max<std::int64_t>(period, 1)}, model);
}

}  // namespace stagecraft
