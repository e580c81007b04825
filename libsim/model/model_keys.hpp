#pragma once

#include <cstdint>

#include "libsim/config/key.hpp"
#include "libsim/model/key_values.hpp"
#include "libsim/model/model_config.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/model/read_values.hpp"

/// The keys of section `model`, each with what every audience of it needs: see Key. The bounds are
/// far above any real model; products of several dimensions are checked with the layout, in
/// read_training_config().
namespace stagecraft {

template <typename Visitor, typename Layer>
void visit_mlp_and_norms(Visitor& keys, Layer& layer) {
  keys("ffn_hidden", layer.ffn_hidden, "The width of the MLP of dense layers.", Between{1, 1 << 26},
       TakenFrom{"4 x model.hidden"});
  keys("activation", layer.activation,
       "The activation of the MLP; swiglu, geglu and swiglu_clamped (GPT-OSS) have a gate, and so "
       "a third matrix.",
       NotInMegatron{"the flags say GELU", "relu"});
  keys("norm", layer.norm, "The kind of all norms.");
  keys("norm_epsilon", layer.norm_epsilon,
       "What a norm adds to the variance; only an executor needs it.",
       Flag{"norm-epsilon", "layernorm-epsilon"}, Between{0, 1});
}

template <typename Visitor, typename Layer>
void visit_rotary(Visitor& keys, Layer& layer) {
  keys("rotary_base", layer.rotary_base,
       "The base of the rotations' frequencies; only an executor needs it.", Between{1, 1e12});
}

template <typename Visitor, typename Layer>
void visit_residual_and_attention(Visitor& keys, Layer& layer) {
  keys("residual", layer.residual,
       "Whether the MLP reads what attention has added to, or both read the same input, through a "
       "norm each or one norm.",
       NotInMegatron{"the flags say layers whose MLP follows their attention"});
  keys("norms", layer.norms,
       "Norms before attention and MLP, after them (OLMo 2), or both (Gemma).",
       NotInMegatron{"the flags say norms before attention and MLP"});
  keys("qk_norm", layer.qk_norm,
       "RMS norms of queries and keys: per head (Qwen3), or over all heads (OLMo 2).",
       NotInMegatron{"the flags say no such norms", "full"});
  keys("dropout", layer.dropout,
       "The rate of dropout after the embedding, attention and the MLP, and of the softmax.",
       Flag{"hidden-dropout"}, Between{0, 1});
  keys("attention_dropout", layer.attention_dropout,
       "The rate of the softmax' dropout, if it differs.", Flag{"attention-dropout", 0.1},
       Between{0, 1}, TakenFrom{"model.dropout"});
  keys("biases", layer.biases, "Whether the linear layers have biases.",
       FlagOf{"false", "disable-bias-linear"});
  keys(
      "qkv_bias", layer.qkv_bias,
      "A bias of the projection to queries, keys and values alone (Qwen2); no effect with biases.");
  keys("attention", layer.attention,
       "Whether core attention stores the scores of all pairs, or is one kernel that does not "
       "(FlashAttention).",
       Tried{"flash attention", "unfused attention"});
  keys("window", Window{layer.window}, "Sliding-window attention.",
       Accepts{"off, or a map with the keys size, period and full"}, Default{"off"});
  keys("sinks", layer.sinks, "A learned score per head beside those of the keys (GPT-OSS).");
  keys("attention_softcap", Cap{layer.attention_softcap},
       "c: scores x of attention become c tanh(x / c). Or off.",
       NotInMegatron{"the flags say no cap"}, Default{"off"});
  keys("softmax_dropout", layer.softmax_dropout,
       "Whether the softmax and its dropout are two kernels or one (unfused attention).",
       Tried{"softmax and dropout in one kernel", "softmax and dropout in two kernels"});
  keys("dropout_mask", layer.dropout_mask,
       "Whether masks of dropout are kept from forward to backward, a byte per element, or made "
       "again from their seed.",
       Tried{"regenerated dropout masks", "stored dropout masks"});
}

/// The keys of a layer kind, without its experts.
template <typename Visitor, typename Layer>
void visit_layer(Visitor& keys, Layer& layer) {
  visit_mlp_and_norms(keys, layer);
  visit_rotary(keys, layer);
  visit_residual_and_attention(keys, layer);
}

/// The window's size. `period` and `full` become a pattern of layers.
template <typename Visitor, typename Integer>
void visit_keys(Visitor& keys, Window<Integer> const& window) {
  keys("size", window.size, "Tokens that a token attends to, itself included.", Between{1, widest},
       Need::required);
  keys.apart("period", "Layer i attends fully if i mod period is in full.",
             Accepts{"a whole number"}, Default{"1"});
  keys.apart("full", "Which of each period layers attend fully.",
             Accepts{"a list of layers below period"}, Default{"[]"});
}

template <typename Visitor, OneOf<LatentAttention> Latents>
void visit_keys(Visitor& keys, Latents& latents) {
  keys("query_rank", latents.query_rank,
       "The width of the latent of queries; 0: queries come from the hidden state.",
       Between{0, widest});
  keys("key_rank", latents.key_rank, "The width of the latent of keys and values.",
       Between{1, widest}, Need::required);
  keys("nope_dim", latents.nope_dim, "Elements of a query or key head without a rotation.",
       Between{1, widest}, Need::required);
  keys("rope_dim", latents.rope_dim, "Elements of a query or key head that are rotated.",
       Between{1, widest}, Need::required);
  keys("value_dim", latents.value_dim, "Elements of a value head.", Between{1, widest},
       Need::required);
}

template <typename Visitor, OneOf<RouterConfig> Router>
void visit_keys(Visitor& keys, Router& router) {
  keys("score", router.score, "What makes scores of the router's logits.");
  keys("order", router.order,
       "Whether the softmax comes after the choice of experts, or before it over all of them.");
  keys("normalise", router.normalise, "Whether the chosen scores are divided by their sum.");
  keys("scaling", router.scaling, "A factor of the probabilities.", Between{0, 1e6});
  keys("groups", router.groups,
       "Groups of experts; a token chooses among the experts of its best groups_per_token groups.",
       Between{1, most_experts});
  keys("groups_per_token", router.groups_per_token, "See groups.", Between{1, most_experts});
  keys("bias", router.bias, "A bias per expert that takes part in the choice alone (DeepSeek-V3).",
       FlagOf{"true", "moe-router-enable-expert-bias"});
  keys("precision", router.precision, "The type of the router's logits.");
  keys("loss", router.loss,
       "The loss that keeps the experts' loads even: of a microbatch, a sequence or the global "
       "batch.");
  keys("loss_coefficient", router.loss_coefficient, "Its coefficient.", Between{0, 1e6});
  keys("z_loss", router.z_loss, "The coefficient of the loss on the size of the logits.",
       NewFlag{"moe-z-loss-coeff", 0}, Between{0, 1e6});
}

/// Keys that the experts of a pattern's kind leave out have the model's values.
template <typename Visitor, OneOf<ExpertsConfig> Experts>
void visit_keys(Visitor& keys, Experts& experts, Need need = Need::required) {
  keys("count", experts.count, "Routed experts of a layer.", Between{1, most_experts}, need);
  keys("per_token", experts.per_token, "Experts that each token uses.", Between{1, most_experts},
       need);
  keys("ffn_hidden", experts.ffn_hidden, "The width of one expert.", Between{1, 1 << 26}, need);
  keys("shared_ffn_hidden", experts.shared_ffn_hidden,
       "The width of the shared experts together, which every token uses; 0: there are none.",
       Between{0, 1 << 26});
  keys("shared_gate", experts.shared_gate,
       "A sigmoid gate on what the shared experts compute (Qwen2).");
  keys("first_dense", experts.first_dense, "Layers before the first that may be sparse.",
       Between{0, most_layers});
  keys("every", experts.every,
       "Layer i from first_dense on is sparse if (i - first_dense) mod every is offset.",
       Between{1, most_layers});
  keys("offset", experts.offset, "See every.", Between{0, most_layers});
  keys("probabilities_on", experts.probabilities_on,
       "Whether a token's probability multiplies what an expert computes, or what it reads (Llama "
       "4).",
       FlagOf{"input", "moe-apply-probs-on-input"});
  keys("biases", experts.biases, "Biases of the router and of each expert's products (GPT-OSS).");
  keys("fused_weighting", experts.fused_weighting,
       "Whether one kernel computes an expert's activation and multiplies it with the tokens' "
       "probabilities, or two, so that the activation's output is kept as well.");
  keys("grouped", experts.grouped,
       "Whether a rank's experts compute together, or one after the other. It changes bytes beside "
       "the op program, not times.",
       FlagOf{"true", "moe-grouped-gemm"});
  keys("router", experts.router);
}

/// Pre: the pattern is read and written by its own functions; it may replace the number of layers.
template <typename Visitor, OneOf<ModelConfig> Model>
void visit_keys(Visitor& keys, Model& model, Need need_of_layers = Need::required) {
  keys("layers", model.layers, "Transformer layers. May be left out if pattern gives them.",
       Between{1, most_layers}, need_of_layers);
  keys("hidden", model.hidden, "The width of the hidden state.", Between{1, widest},
       Need::required);
  keys("heads", model.heads, "Query heads of attention.", Between{1, 1 << 20}, Need::required);
  keys("kv_heads", model.kv_heads,
       "Key and value heads: fewer than heads for grouped-query attention.", Between{1, 1 << 20},
       TakenFrom{"model.heads"});
  keys("head_dim", model.head_dim, "Elements per head.", Between{1, widest},
       TakenFrom{"model.hidden / model.heads"});
  keys("sequence", model.sequence, "Tokens per sequence.", Between{1, widest}, Need::required);
  keys("vocabulary", model.vocabulary, "Tokens of the vocabulary, without padding.",
       Between{1, std::int64_t{1} << 31}, Need::required);
  keys("vocabulary_multiple", model.vocabulary_multiple,
       "The vocabulary is padded to a multiple of this times parallel.tensor.",
       Between{1, 1 << 20});
  visit_mlp_and_norms(keys, model);
  keys("positions", model.positions,
       "A table of positions after the embedding, or rotations of queries and keys.");
  visit_rotary(keys, model);
  if (keys.prints(model.rotary_fraction != 1)) {
    keys("rotary_fraction", model.rotary_fraction,
         "The part of each head that is rotated (GLM 4); it changes neither memory nor time here, "
         "but the model that is trained.",
         NewFlag{"rotary-percent", 1}, NumberRange{0, 1, true});
  }
  if (keys.prints(model.rotary_scaling != 1)) {
    keys("rotary_scaling", model.rotary_scaling,
         "The factor by which long wavelengths of rotary positions grow, as in Llama 3.1: those "
         "above 8192 tokens by all of it, those below 2048 not at all; 1: none. It changes neither "
         "memory nor time, but the model that is trained.",
         Between{1, 1e6});
  }
  keys("position_rows", model.position_rows, "Rows of the table of learned positions.",
       Between{1, widest}, TakenFrom{"model.sequence"});
  keys("tied_embeddings", model.tied_embeddings,
       "Whether the output projection has the embedding's weights.",
       FlagOf{"false", "untie-embeddings-and-output-weights"});
  visit_residual_and_attention(keys, model);
  keys("predicted_tokens", model.predicted_tokens,
       "Modules of multi-token prediction after the layers (DeepSeek-V3).",
       NewFlag{"mtp-num-layers", 0}, Between{0, 100});
  keys("logit_softcap", Cap{model.logit_softcap},
       "As attention_softcap, of the head's logits. Or off.", NotInMegatron{"the flags say no cap"},
       Default{"off"});
  keys("latent_attention", model.latent_attention,
       "Multi-head latent attention (DeepSeek). Or off.", Accepts{"a map"}, Default{"off"});
  keys("causal_mask", model.causal_mask,
       "Whether a mask of sequence x sequence bytes exists per microbatch (unfused attention).",
       FlagOf{"none", "no-create-attention-mask-in-dataloader"},
       Tried{"no causal masks", "one causal mask per microbatch"});
  keys("precision", model.precision, "The type of parameters and activations.",
       NotInMegatron{"the flags say fp32", "fp64"});
  if (keys.prints(model.experts.has_value())) {
    keys("experts", model.experts, "Routed experts in place of the MLP of sparse layers.",
         Accepts{"none, or a map with the keys count, per_token and ffn_hidden"}, Default{"none"});
  }
  keys.apart("pattern",
             "Layers that differ, repeated as written until the last layer: {kind: {keys of the "
             "model that differ}, count: n}.",
             Accepts{"a list of maps with the keys kind and count"}, Default{"[]"});
}

}  // namespace stagecraft
