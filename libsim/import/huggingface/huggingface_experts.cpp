#include "libsim/import/huggingface/huggingface_experts.hpp"

#include <string>

#include "libsim/import/huggingface/huggingface_llama_like.hpp"
#include "libsim/import/huggingface/huggingface_parts.hpp"
#include "libsim/import/huggingface/huggingface_windows.hpp"

namespace stagecraft {
namespace {

using Keys = HuggingfaceKeys;
using Sequence = std::optional<std::int64_t>;

constexpr IntegerRange expert_counts{1, 1 << 20};
constexpr IntegerRange layer_widths{1, 1 << 26};

/// How many experts there are, and how many a token uses; their width is under `width`.
ExpertsConfig read_counts(Keys& keys, Keys::Names count, std::string_view width) {
  ExpertsConfig experts;
  experts.count = keys.integer(count, expert_counts);
  experts.per_token = keys.integer({"num_experts_per_tok"}, expert_counts);
  experts.ffn_hidden = keys.integer({width}, layer_widths);
  return experts;
}

/// The loss that keeps loads even, which the classes add if they are asked for router logits.
void leave_out_loss(Keys& keys) {
  auto const coefficient =
      keys.find_number({"router_aux_loss_coef", "aux_loss_alpha"}, {0, 1000}).value_or(0);
  if (coefficient > 0) {
    keys.note(
        "the router's auxiliary loss is left out, which transformers sums over all layers; "
        "Megatron-LM's is model.experts.router.loss");
  }
  keys.without_effect(
      {"output_router_logits", "router_jitter_noise", "seq_aux", "ep_size", "aux_loss_alpha"});
}

/// Qwen's rule of sparse layers: every `decoder_sparse_step`-th.
void read_sparse_step(Keys& keys, ExpertsConfig& experts) {
  experts.every = keys.find_integer({"decoder_sparse_step"}, expert_counts).value_or(1);
  experts.offset = experts.every - 1;
  if (!keys.find_texts("mlp_only_layers").empty()) {
    keys.refuse("mlp_only_layers", "an empty list", "these layers are modelled with experts");
  }
}

/// DeepSeek's keys of experts: shared ones, dense layers first, groups, and a factor.
ExpertsConfig read_shared_counts(Keys& keys) {
  ExpertsConfig experts =
      read_counts(keys, {"n_routed_experts", "num_local_experts"}, "moe_intermediate_size");
  experts.shared_ffn_hidden =
      experts.ffn_hidden * keys.find_integer({"n_shared_experts"}, {0, 1 << 20}).value_or(0);
  experts.first_dense = keys.find_integer({"first_k_dense_replace"}, {0, 1 << 20}).value_or(0);
  experts.every = keys.find_integer({"moe_layer_freq"}, expert_counts).value_or(1);
  RouterConfig& router = experts.router;
  router.groups = keys.find_integer({"n_group"}, expert_counts).value_or(1);
  router.groups_per_token = keys.find_integer({"topk_group"}, expert_counts).value_or(1);
  router.scaling = keys.number_or({"routed_scaling_factor"}, {0, 1e6}, 1);
  leave_out_loss(keys);
  keys.without_effect({"topk_method", "scoring_func"});
  return experts;
}

/// DeepSeek-V3's router: sigmoids, and a bias that takes part in the choice alone.
void read_sigmoid_router(Keys& keys, RouterConfig& router, bool normalises = true) {
  router.score = RouterScore::sigmoid;
  router.order = RouterOrder::after;
  router.normalise = keys.boolean_or({"norm_topk_prob"}, normalises);
  router.bias = true;
}

/// What DeepSeek's versions share: latent attention, shared experts, groups of experts.
void read_deepseek(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  keys.refuse_if_true("attention_bias", "the attention's biases are left out");
  LatentAttention& latents = model.latent_attention;
  latents.query_rank = keys.find_integer({"q_lora_rank"}, layer_widths).value_or(0);
  latents.key_rank = keys.integer({"kv_lora_rank"}, layer_widths);
  latents.nope_dim = keys.integer({"qk_nope_head_dim"}, layer_widths);
  latents.rope_dim = keys.integer({"qk_rope_head_dim"}, layer_widths);
  latents.value_dim = keys.integer({"v_head_dim"}, layer_widths);
  // Files of transformers 5 have the rotary part as head_dim.
  model.head_dim = latents.nope_dim + latents.rope_dim;
  model.kv_heads = model.heads;

  model.experts = read_shared_counts(keys);
  model.experts->router.order = RouterOrder::before;
  keys.without_effect({"qk_head_dim", "rope_interleave"});
}

}  // namespace

void read_mixtral(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  ExpertsConfig experts =
      read_counts(keys, {"num_local_experts", "num_experts"}, "intermediate_size");
  leave_out_loss(keys);
  model.experts = experts;
  read_windows(keys, {}, model);
}

/// Qwen2 with experts: biases of queries, keys and values, shared experts behind a gate.
void read_qwen2_moe(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  model.qkv_bias = keys.find_boolean({"qkv_bias"}).value_or(true);
  ExpertsConfig experts =
      read_counts(keys, {"num_experts", "num_local_experts"}, "moe_intermediate_size");
  experts.shared_ffn_hidden = keys.integer({"shared_expert_intermediate_size"}, layer_widths);
  experts.shared_gate = true;
  read_sparse_step(keys, experts);
  experts.router.order = RouterOrder::before;
  experts.router.normalise = keys.boolean_or({"norm_topk_prob"}, false);
  leave_out_loss(keys);
  model.experts = experts;
  read_windows(keys, windows_behind_first(keys), model);
}

void read_qwen3_moe(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  model.qk_norm = QkNorm::head;
  keys.refuse_if_true("attention_bias", "the attention's biases are left out");
  ExpertsConfig experts =
      read_counts(keys, {"num_experts", "num_local_experts"}, "moe_intermediate_size");
  read_sparse_step(keys, experts);
  experts.router.order = RouterOrder::before;
  experts.router.normalise = keys.boolean_or({"norm_topk_prob"}, false);
  leave_out_loss(keys);
  model.experts = experts;
  read_windows(keys, windows_behind_first(keys), model);
}

void read_olmoe(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  model.qk_norm = QkNorm::full;
  keys.refuse_if_true("attention_bias", "the attention's biases are left out");
  ExpertsConfig experts =
      read_counts(keys, {"num_experts", "num_local_experts"}, "intermediate_size");
  experts.router.order = RouterOrder::before;
  experts.router.normalise = keys.boolean_or({"norm_topk_prob"}, false);
  leave_out_loss(keys);
  model.experts = experts;
  keys.without_effect({"clip_qkv"});
}

/// Granite with experts: products without biases, and constant factors.
void read_granite_moe(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  keys.refuse_if_true("attention_bias", "the attention's biases are left out");
  ExpertsConfig experts =
      read_counts(keys, {"num_local_experts", "num_experts"}, "intermediate_size");
  leave_out_loss(keys);
  model.experts = experts;
  keys.without_effect(
      {"embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"});
}

void read_deepseek_v2(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_deepseek(keys, sequence, model);
  RouterConfig& router = model.experts->router;
  router.normalise = keys.boolean_or({"norm_topk_prob"}, false);
  // modeling_deepseek_v2.py: a greedy choice knows no groups.
  if (keys.find_text({"topk_method"}).value_or("greedy") == "greedy") {
    router.groups = 1;
    router.groups_per_token = 1;
  }
}

void read_deepseek_v3(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_deepseek(keys, sequence, model);
  read_sigmoid_router(keys, model.experts->router);
}

/// Kimi K2: DeepSeek-V3's class, as its `architectures` says.
void read_kimi_k2(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_deepseek_v3(keys, sequence, model);
}

/// GLM 4.5 and 4.6: grouped-query attention, and the router of DeepSeek-V3.
void read_glm4_moe(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  read_qkv_bias(keys, false, model);
  if (keys.boolean_or({"use_qk_norm"}, false)) model.qk_norm = QkNorm::head;
  ExpertsConfig experts = read_shared_counts(keys);
  read_sigmoid_router(keys, experts.router);
  model.experts = experts;
}

/// dots.llm1: Qwen3's attention, and the router of DeepSeek-V3.
void read_dots1(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  model.qk_norm = QkNorm::head;
  keys.refuse_if_true("attention_bias", "the attention's biases are left out");
  ExpertsConfig experts = read_shared_counts(keys);
  read_sigmoid_router(keys, experts.router, false);
  model.experts = experts;
  auto const first = keys.find_integer({"max_window_layers"}, {0, 1 << 20});
  read_windows(keys, {.first = first.value_or(62)}, model);
}

/// MiniMax M2: norms over all heads, the router of DeepSeek-V3 without groups.
void read_minimax_m2(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  model.qk_norm = QkNorm::full;
  ExpertsConfig experts =
      read_counts(keys, {"num_local_experts", "num_experts"}, "intermediate_size");
  experts.shared_ffn_hidden =
      keys.find_integer({"shared_intermediate_size"}, {0, layer_widths.largest}).value_or(0);
  read_sigmoid_router(keys, experts.router);
  leave_out_loss(keys);
  model.experts = experts;
  if (keys.find_integer({"num_mtp_modules"}, {0, 100}).value_or(0) > 0) {
    keys.note("the modules of multi-token prediction are left out, as transformers does");
  }
  keys.without_effect({"attn_type_list", "attn_window_size", "layernorm_full_attention_beta",
                       "layernorm_linear_attention_beta", "layernorm_mlp_beta", "max_model_len",
                       "mlp_intermediate_size", "mtp_transformer_layers", "qk_norm_type",
                       "rotary_dim", "router_jitter_noise", "scoring_func", "shared_moe_mode",
                       "sliding_window", "swa_rope_theta", "use_grouped_topk", "use_mtp",
                       "use_qk_norm", "use_routing_bias"});
}

/// GPT-OSS: biases everywhere, sinks, a clamped SwiGLU, windows in every other layer.
void read_gpt_oss(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  model.activation = Activation::swiglu_clamped;
  model.sinks = true;
  if (model.attention != Attention::flash) {
    keys.approximate("sinks", "its attention sinks beside --attention unfused",
                     "attention is modelled as flash");
    model.attention = Attention::flash;
  }
  model.biases = keys.boolean_or({"attention_bias"}, true);
  ExpertsConfig experts =
      read_counts(keys, {"num_local_experts", "num_experts"}, "intermediate_size");
  experts.biases = true;
  leave_out_loss(keys);
  model.experts = experts;
  // The constants of swiglu_clamped.
  constexpr NumberRange constants{0, 1e9};
  if (keys.find_number({"swiglu_alpha"}, constants).value_or(1.702) != 1.702) {
    keys.refuse("swiglu_alpha", "1.702", "modelled with 1.702");
  }
  if (keys.find_number({"swiglu_limit"}, constants).value_or(7) != 7) {
    keys.refuse("swiglu_limit", "7", "modelled with 7");
  }
  read_windows(keys, {.full_every = 2}, model);
  keys.without_effect({"initial_context_length", "experts_per_token"});
}

/// Llama 4 without images: one expert a token and one that all use, chosen by a sigmoid that
/// multiplies what the expert reads.
void read_llama4(Keys& keys, Sequence sequence, ModelConfig& model) {
  read_llama_like(keys, sequence, false, model);
  keys.refuse_if_true("attention_bias", "the attention's biases are left out");
  ExpertsConfig experts =
      read_counts(keys, {"num_local_experts", "num_experts"}, "intermediate_size");
  experts.shared_ffn_hidden = experts.ffn_hidden;
  experts.every = keys.find_integer({"interleave_moe_layer_step"}, expert_counts).value_or(1);
  experts.offset = experts.every - 1;
  experts.probabilities_on = ProbabilitiesOn::input;
  experts.router.score = RouterScore::sigmoid;
  experts.router.normalise = false;
  leave_out_loss(keys);
  model.experts = experts;
  model.ffn_hidden = keys.integer({"intermediate_size_mlp"}, layer_widths);
  auto const chunk = keys.find_integer({"attention_chunk_size"}, {1, 1LL << 40});
  if (chunk && *chunk < model.sequence) {
    keys.refuse("attention_chunk_size",
                "null, or at least the sequence (" + std::to_string(model.sequence) +
                    "): --sequence " + std::to_string(*chunk),
                "attention is modelled over the whole sequence");
  }
  if (keys.find_boolean({"use_qk_norm"}).value_or(false)) {
    keys.note("norms of queries and keys without parameters are left out");
  }
  keys.without_effect({"moe_layers", "no_rope_layers", "no_rope_layer_interval", "layer_types",
                       "attn_temperature_tuning", "attn_scale", "floor_scale", "for_llm_compressor",
                       "expert_dim"});
}

}  // namespace stagecraft
