#include "libsim/import/huggingface/huggingface_families.hpp"

#include <algorithm>
#include <array>

#include "libsim/import/huggingface/huggingface_experts.hpp"
#include "libsim/import/huggingface/huggingface_llama_like.hpp"
#include "libsim/import/huggingface/huggingface_parts.hpp"
#include "libsim/import/huggingface/huggingface_squared_relu.hpp"
#include "libsim/import/huggingface/huggingface_windows.hpp"

namespace stagecraft {
namespace {

using Keys = HuggingfaceKeys;
using Sequence = std::optional<std::int64_t>;

constexpr NumberRange epsilons{0, 1};

void read_llama(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  bool const of_attention = keys.find_boolean({"attention_bias"}).value_or(false);
  bool const of_mlp = keys.find_boolean({"mlp_bias"}).value_or(false);
  model.biases = of_attention && of_mlp;
  if (of_attention && !of_mlp) {
    keys.refuse("attention_bias", "false, or true together with mlp_bias",
                "the bias of the attention's output, h per layer, is left out");
    model.qkv_bias = true;
  } else if (of_mlp && !of_attention) {
    keys.refuse("mlp_bias", "false, or true together with attention_bias",
                "the MLP's biases are left out");
  }
}

void read_mistral(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  read_windows(keys, {}, model);
}

void read_qwen2(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  model.qkv_bias = true;  // modeling_qwen2.py: q_proj, k_proj and v_proj have one, o_proj has none
  read_windows(keys, windows_behind_first(keys), model);
  keys.without_effect({"use_mrope"});
}

void read_phi3(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  model.dropout = keys.number_or({"resid_pdrop"}, {0, 1}, 0);
  if (auto const rate = keys.find_number({"embd_pdrop"}, {0, 1}); rate && *rate != model.dropout) {
    keys.refuse("embd_pdrop", "the value of resid_pdrop",
                "resid_pdrop holds for the embedding too");
  }
  read_windows(keys, {}, model);
  keys.without_effect({"original_max_position_embeddings", "attention_bias"});
}

void read_gpt2(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_shape(keys, model);
  read_ffn(keys, Need::optional, model);
  read_learned_positions(keys, sequence, 0, model);
  read_activation(keys, {"activation_function"}, "gelu_new", Gate::none, model);
  model.norm_epsilon = keys.number_or({"layer_norm_epsilon"}, epsilons, 1e-5);
  model.tied_embeddings = keys.boolean_or({"tie_word_embeddings"}, true);
  read_dropout(keys, {"resid_pdrop"}, 0.1, {"attn_pdrop"}, 0.1, model);
  double const of_embedding = keys.number_or({"embd_pdrop"}, {0, 1}, 0.1);
  if (of_embedding != model.dropout) {
    keys.refuse("embd_pdrop", "the value of resid_pdrop",
                "resid_pdrop holds for the embedding too");
  }
  keys.refuse_if_true("add_cross_attention", "the layers' cross attention is left out");
  keys.refuse_if_true("reorder_and_upcast_attn", "the scores are not modelled in fp32");
  keys.without_effect({"scale_attn_weights", "scale_attn_by_inverse_layer_idx", "summary_type",
                       "summary_use_proj", "summary_activation", "summary_first_dropout",
                       "summary_proj_to_labels", "output_past"});
}

void read_gpt_bigcode(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_gpt2(keys, sequence, model);
  if (keys.boolean_or({"multi_query"}, true)) model.kv_heads = 1;
  // transformers 5 writes the number that multi_query implies.
  if (auto const heads = keys.find_integer({"num_key_value_heads"}, {1, 1 << 20});
      heads && *heads != model.kv_heads) {
    keys.refuse("num_key_value_heads", std::to_string(model.kv_heads) + ", as multi_query says",
                std::to_string(model.kv_heads) + " is modelled");
  }
  keys.without_effect({"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32",
                       "inference_runner", "max_sequence_length", "max_batch_size",
                       "pad_key_length", "pre_allocate_kv_cache", "validate_runner_input"});
}

/// Notes how a parallel layer here differs from GPT-NeoX's and Falcon's own training code.
void note_parallel_layers(Keys& keys) {
  keys.note(
      "parallel layers: attention and MLP are summed over the tensor group one after the "
      "other; GPT-NeoX's code sums them at once");
}

void read_gpt_neox(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_shape(keys, model);
  read_ffn(keys, Need::required, model);
  read_rotary_positions(keys, sequence, {"rotary_emb_base", "rope_theta"}, model, 0.25);
  read_activation(keys, {"hidden_act"}, "gelu", Gate::none, model);
  model.norm_epsilon = keys.number_or({"layer_norm_eps"}, epsilons, 1e-5);
  model.tied_embeddings = keys.boolean_or({"tie_word_embeddings"}, false);
  if (keys.boolean_or({"use_parallel_residual"}, true)) {
    model.residual = Residual::parallel;
    note_parallel_layers(keys);
  }
  read_dropout(keys, {"hidden_dropout", "hidden_dropout_prob"}, 0,
               {"attention_dropout", "attention_probs_dropout_prob"}, 0, model);
  if (!keys.find_boolean({"attention_bias"}).value_or(true)) {
    keys.refuse("attention_bias", "true", "the attention's biases are modelled");
  }
  keys.without_effect({"classifier_dropout"});
}

/// Refuses what OPT 350M does: it embeds words in fewer dimensions than the layers have and
/// projects.
void refuse_narrow_embedding(Keys& keys, ModelConfig const& model) {
  auto const width = keys.find_integer({"word_embed_proj_dim"}, {1, 1 << 24});
  if (width && *width != model.hidden) {
    keys.refuse("word_embed_proj_dim", "hidden_size (" + std::to_string(model.hidden) + ")",
                "embeddings as wide as the layers are modelled, without projections");
  }
}

void read_opt(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_shape(keys, model);
  read_ffn(keys, Need::required, model);
  read_learned_positions(keys, sequence, 2, model);  // modeling_opt.py: two rows of offset
  read_activation(keys, {"activation_function"}, "relu", Gate::none, model);
  model.tied_embeddings = keys.boolean_or({"tie_word_embeddings"}, true);
  read_dropout(keys, {"dropout"}, 0.1, {"attention_dropout"}, 0, model);
  if (model.dropout > 0) {
    keys.note(
        "OPT has no dropout after the embedding; the model here has one, of s b h bytes per "
        "microbatch on the first stage");
  }
  if (!keys.find_boolean({"enable_bias"}).value_or(true)) {
    keys.refuse("enable_bias", "true", "biases are modelled");
  }
  if (!keys.find_boolean({"layer_norm_elementwise_affine"}).value_or(true)) {
    keys.refuse("layer_norm_elementwise_affine", "true", "the norms' parameters are modelled");
  }
  if (!keys.find_boolean({"do_layer_norm_before"}).value_or(true)) {
    keys.refuse("do_layer_norm_before", "true", "the norms are modelled before attention and MLP");
  }
  refuse_narrow_embedding(keys, model);
  keys.refuse_if_true("_remove_final_layer_norm", "the final norm is modelled");
  keys.without_effect({"prefix", "layerdrop", "init_std", "activation_dropout"});
}

/// Granite: Llama with constant factors.
void read_granite(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama(keys, sequence, model);
  keys.without_effect(
      {"embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"});
}

/// SmolLM3: Llama, some of whose layers have no rotary positions.
void read_smollm3(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, true, model);
  read_windows(keys, windows_behind_first(keys), model);
  keys.refuse_if_true("attention_bias", "the attention's biases are left out");
  keys.refuse_if_true("mlp_bias", "the MLP's biases are left out");
  keys.without_effect({"no_rope_layers", "no_rope_layer_interval"});
}

/// Ministral 8B (windows in most layers) and Ministral 3.
void read_ministral(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  read_windows(keys, {}, model);
}

/// ByteDance Seed-OSS: Llama with biases of queries, keys and values.
void read_seed_oss(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  read_qkv_bias(keys, true, model);
  model.dropout = keys.find_number({"residual_dropout"}, {0, 1}).value_or(0);
  keys.refuse_if_true("attention_out_bias", "the bias of the attention's output is left out");
  keys.refuse_if_true("mlp_bias", "the MLP's biases are left out");
}

/// Helium of Kyutai: Llama.
void read_helium(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  read_qkv_bias(keys, false, model);
  keys.refuse_if_true("mlp_bias", "the MLP's biases are left out");
}

/// ERNIE 4.5 without experts: Llama, all of whose products have a bias or none.
void read_ernie(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, true, model);
  model.biases = keys.boolean_or({"use_bias"}, false);
}

/// BLOOM: GPT with ALiBi and a norm of the embedding.
void read_bloom(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_shape(keys, model);
  model.ffn_hidden = 4 * model.hidden;
  model.positions = Positions::rotary;
  model.sequence =
      sequence.value_or(keys.find_integer({"seq_length"}, {1, 1 << 24}).value_or(2048));
  model.norm_epsilon = keys.number_or({"layer_norm_epsilon"}, epsilons, 1e-5);
  model.tied_embeddings = keys.boolean_or({"tie_word_embeddings"}, true);
  read_dropout(keys, {"hidden_dropout"}, 0, {"attention_dropout"}, 0, model);
  keys.approximate("alibi", "ALiBi positions and norm of the embedding",
                   "2h parameters and a norm on the first stage; rotary positions are modelled, "
                   "which have no parameters either");
  keys.refuse_if_true("apply_residual_connection_post_layernorm",
                      "residuals are modelled before the norms");
  keys.without_effect({"seq_length", "slow_but_exact", "masked_softmax_fusion", "offset_alibi",
                       "bias_dropout_fusion", "skip_bias_add", "skip_bias_add_qkv",
                       "attention_softmax_in_fp32", "unk_token_id", "n_inner"});
}

void read_starcoder2(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_shape(keys, model);
  read_groups(keys, model);
  read_ffn(keys, Need::required, model);
  read_rotary_positions(keys, sequence, {"rope_theta"}, model);
  read_activation(keys, {"hidden_act"}, "gelu_pytorch_tanh", Gate::none, model);
  model.norm_epsilon = keys.number_or({"norm_epsilon"}, epsilons, 1e-5);
  model.biases = keys.boolean_or({"use_bias"}, true);
  model.tied_embeddings = keys.boolean_or({"tie_word_embeddings"}, true);
  read_dropout(keys, {"residual_dropout"}, 0, {"attention_dropout"}, 0, model);
  if (auto const rate = keys.find_number({"embedding_dropout"}, {0, 1});
      rate && *rate != model.dropout) {
    keys.refuse("embedding_dropout", "the value of residual_dropout",
                "residual_dropout holds for the embedding too");
  }
  read_windows(keys, {}, model);
  keys.without_effect({"mlp_type", "norm_type"});
}

/// Reads Falcon: 7B has one key-value head and one norm per layer, 40B and 180B have groups and two
/// norms (new_decoder_architecture). Old files (RefinedWeb) call the groups `n_head_kv`.
void read_falcon(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_shape(keys, model);
  read_ffn(keys, Need::optional, model);
  read_rotary_positions(keys, sequence, {"rope_theta"}, model);
  read_activation(keys, {"activation"}, "gelu", Gate::none, model);
  model.norm_epsilon = keys.number_or({"layer_norm_epsilon"}, epsilons, 1e-5);
  model.tied_embeddings = keys.boolean_or({"tie_word_embeddings"}, true);
  model.biases = keys.boolean_or({"bias"}, false);
  read_dropout(keys, {"hidden_dropout"}, 0, {"attention_dropout"}, 0, model);

  auto const groups = keys.find_integer({"num_kv_heads", "n_head_kv"}, {1, 1 << 20});
  // Old files of 40B imply new_decoder_architecture only by n_head_kv and model_type RefinedWeb.
  bool const is_new = keys.find_boolean({"new_decoder_architecture"})
                          .value_or(keys.find_text({"model_type"}) == "RefinedWeb");
  bool const is_multi_query = keys.find_boolean({"multi_query"}).value_or(!is_new);
  if (is_new) {
    model.kv_heads = groups.value_or(model.heads);
  } else if (is_multi_query) {
    model.kv_heads = 1;
  }
  bool const is_parallel = keys.boolean_or({"parallel_attn"}, true) || is_new;
  std::int64_t const norms =
      keys.find_integer({"num_ln_in_parallel_attn"}, {1, 2}).value_or(is_new ? 2 : 1);
  if (is_parallel) {
    model.residual = norms == 2 ? Residual::parallel : Residual::parallel_one_norm;
    note_parallel_layers(keys);
  }
  if (keys.find_boolean({"alibi"}).value_or(false)) {
    keys.refuse("alibi", "false", "rotary positions are modelled, which have no parameters either");
  }
  if (model.dropout > 0) {
    keys.note("Falcon has no dropout after the embedding; the model here has one");
  }
  keys.without_effect({"apply_residual_connection_post_layernorm"});
}

constexpr std::array families{HuggingfaceFamily{"arcee", read_arcee},
                              HuggingfaceFamily{"bloom", read_bloom},
                              HuggingfaceFamily{"cwm", read_ministral},
                              HuggingfaceFamily{"deepseek_v2", read_deepseek_v2},
                              HuggingfaceFamily{"deepseek_v3", read_deepseek_v3},
                              HuggingfaceFamily{"dots1", read_dots1},
                              HuggingfaceFamily{"ernie4_5", read_ernie},
                              HuggingfaceFamily{"exaone4", read_exaone4},
                              HuggingfaceFamily{"falcon", read_falcon},
                              HuggingfaceFamily{"gemma", read_gemma},
                              HuggingfaceFamily{"gemma2", read_gemma2},
                              HuggingfaceFamily{"gemma3_text", read_gemma3},
                              HuggingfaceFamily{"glm", read_glm},
                              HuggingfaceFamily{"glm4", read_glm4},
                              HuggingfaceFamily{"glm4_moe", read_glm4_moe},
                              HuggingfaceFamily{"gpt2", read_gpt2},
                              HuggingfaceFamily{"gpt_bigcode", read_gpt_bigcode},
                              HuggingfaceFamily{"gpt_neox", read_gpt_neox},
                              HuggingfaceFamily{"gpt_oss", read_gpt_oss},
                              HuggingfaceFamily{"granite", read_granite},
                              HuggingfaceFamily{"granitemoe", read_granite_moe},
                              HuggingfaceFamily{"helium", read_helium},
                              HuggingfaceFamily{"hunyuan_v1_dense", read_hunyuan},
                              HuggingfaceFamily{"kimi_k2", read_kimi_k2},
                              HuggingfaceFamily{"llama", read_llama},
                              HuggingfaceFamily{"llama4_text", read_llama4},
                              HuggingfaceFamily{"minimax_m2", read_minimax_m2},
                              HuggingfaceFamily{"ministral", read_ministral},
                              HuggingfaceFamily{"ministral3", read_ministral},
                              HuggingfaceFamily{"mistral", read_mistral},
                              HuggingfaceFamily{"mixtral", read_mixtral},
                              HuggingfaceFamily{"nemotron", read_nemotron},
                              HuggingfaceFamily{"olmo2", read_olmo2},
                              HuggingfaceFamily{"olmo3", read_olmo3},
                              HuggingfaceFamily{"olmoe", read_olmoe},
                              HuggingfaceFamily{"opt", read_opt},
                              HuggingfaceFamily{"phi3", read_phi3},
                              HuggingfaceFamily{"qwen2", read_qwen2},
                              HuggingfaceFamily{"qwen2_moe", read_qwen2_moe},
                              HuggingfaceFamily{"qwen3", read_qwen3},
                              HuggingfaceFamily{"qwen3_moe", read_qwen3_moe},
                              HuggingfaceFamily{"seed_oss", read_seed_oss},
                              HuggingfaceFamily{"smollm3", read_smollm3},
                              HuggingfaceFamily{"stablelm", read_stablelm},
                              HuggingfaceFamily{"starcoder2", read_starcoder2},
                              HuggingfaceFamily{"vaultgemma", read_vaultgemma},
                              HuggingfaceFamily{"RefinedWeb", read_falcon},
                              HuggingfaceFamily{"RefinedWebModel", read_falcon}};

}  // namespace

HuggingfaceFamily const* find_family(std::string_view model_type) {
  auto const found = std::find_if(families.begin(), families.end(), [&](auto const& family) {
    return family.model_type == model_type;
  });
  return found == families.end() ? nullptr : &*found;
}

std::string family_names() {
  std::string names;
  for (HuggingfaceFamily const& family : families) {
    names += (names.empty() ? "" : ", ") + std::string{family.model_type};
  }
  return names;
}

}  // namespace stagecraft
