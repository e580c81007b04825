#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/model/experts_config.hpp"

namespace stagecraft {

/// The activation of the MLP. swiglu and geglu are gated: two products of width f, one activated.
/// swiglu_clamped is GPT-OSS's: both branches are clamped, and 1 is added to the one that is not
/// activated.
enum class Activation : std::uint8_t { gelu, swiglu, relu, geglu, swiglu_clamped };
enum class Norm : std::uint8_t { layernorm, rmsnorm };
enum class Positions : std::uint8_t { learned, rotary };
/// What a layer adds to its input x. sequential: attention(norm(x)), then mlp(norm(x + that));
/// parallel: attention(norm(x)) + mlp(norm'(x)) (GPT-NeoX, Falcon 40B); parallel_one_norm: the same
/// with one norm for both (Falcon 7B).
enum class Residual : std::uint8_t { sequential, parallel, parallel_one_norm };
/// Where a layer has norms: before attention and MLP, after them (before the residual add; OLMo 2),
/// or both (Gemma 2).
enum class NormPlaces : std::uint8_t { pre, post, both };
/// RMS norms of queries and keys: none, of each head (Qwen3), or over all heads of a token
/// (OLMo 2).
enum class QkNorm : std::uint8_t { none, head, full };
enum class Attention : std::uint8_t { unfused, flash };
/// Whether dropout masks are kept from forward to backward (one byte per element, as in the paper)
/// or regenerated from a counter.
enum class DropoutMask : std::uint8_t { stored, regenerated };
/// Whether the softmax of unfused attention and the dropout after it are two kernels, as in
/// Megatron-LM, or one, as a compiler of pointwise ops makes it, which reads and writes less. The
/// results are equal bit for bit.
enum class SoftmaxDropout : std::uint8_t { separate, fused };
/// Whether every microbatch carries a boolean causal mask of s^2 bytes, as Megatron-LM of 2022
/// does.
enum class CausalMask : std::uint8_t { per_microbatch, none };
enum class Precision : std::uint8_t { fp16, bf16, fp32, fp64 };

/// Multi-head latent attention (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1): queries, keys and
/// values are products of latents that are narrower than the heads together.
struct LatentAttention {
  std::int64_t query_rank = 0;  ///< of the queries' latent; 0: queries come from the hidden state
  std::int64_t key_rank = 0;    ///< of the keys' and values' latent; 0: no latent attention
  std::int64_t nope_dim = 0;    ///< elements of a query or key head without positions
  std::int64_t rope_dim = 0;    ///< elements with rotary positions; of keys, shared by all heads
  std::int64_t value_dim = 0;   ///< elements of a value head

  friend bool operator==(LatentAttention const&, LatentAttention const&) = default;
};

/// A layer kind: the keys of a model that may differ from layer to layer.
struct LayerConfig {
  std::int64_t ffn_hidden = 0;             ///< width of a dense layer's MLP; default 4 h
  std::optional<ExpertsConfig> experts{};  ///< empty if the layer is dense
  Activation activation = Activation::gelu;
  Norm norm = Norm::layernorm;
  double norm_epsilon = 1e-5;  ///< added to the variance, or to the mean square
  double rotary_base = 10000;  ///< rotary positions: wavelengths from 2 pi to 2 pi times this
  Residual residual = Residual::sequential;
  NormPlaces norms = NormPlaces::pre;
  QkNorm qk_norm = QkNorm::none;
  std::int64_t window = 0;       ///< tokens that a token attends to, itself included; 0: all before
  bool sinks = false;            ///< a learned score per head beside those of the keys (GPT-OSS)
  double attention_softcap = 0;  ///< c: scores x become c tanh(x / c); 0: no cap
  double dropout = 0.1;          ///< rate of all three dropouts, 0 <= rate < 1
  std::optional<double> attention_dropout{};  ///< rate of the attention core, if it differs
  bool biases = true;                         ///< whether the four linear layers have biases
  bool qkv_bias = false;  ///< a bias of the QKV projection alone (Qwen2); no effect with biases
  Attention attention = Attention::unfused;
  SoftmaxDropout softmax_dropout = SoftmaxDropout::separate;
  DropoutMask dropout_mask = DropoutMask::stored;

  friend bool operator==(LayerConfig const&, LayerConfig const&) = default;
};

/// Consecutive layers of one kind.
struct LayerRun {
  LayerConfig kind;
  std::int64_t count = 1;

  friend bool operator==(LayerRun const&, LayerRun const&) = default;
};

/// What is trained: the shape of one decoder-only Transformer. Symbols are those of Korthikanti et
/// al. 2022, table 1. Section `model` of a run file.
///
/// The keys of LayerConfig hold for the embedding and the head (dropout, norm), and for all layers
/// for which the pattern does not say otherwise.
struct ModelConfig : LayerConfig {
  std::int64_t layers = 0;                 ///< L
  std::int64_t hidden = 0;                 ///< h
  std::int64_t heads = 0;                  ///< a
  std::int64_t kv_heads = 0;               ///< groups of grouped-query attention; default heads
  std::int64_t head_dim = 0;               ///< elements per head; default h / a
  std::int64_t sequence = 0;               ///< s
  std::int64_t vocabulary = 0;             ///< v, unpadded
  std::int64_t vocabulary_multiple = 128;  ///< padded to a multiple of this times t
  Positions positions = Positions::learned;
  /// Learned positions: rows of their table if these are not s (OPT has s + 2).
  std::optional<std::int64_t> position_rows{};
  double rotary_fraction = 1;  ///< of each head, the part that rotary positions rotate
  double rotary_scaling = 1;   ///< factor of Llama 3.1's longer wavelengths; 1: as the base says
  bool tied_embeddings = true;
  std::int64_t predicted_tokens = 0;  ///< modules of multi-token prediction after the layers
  double logit_softcap = 0;           ///< c for the head's logits, as attention_softcap for scores
  LatentAttention latent_attention{};
  CausalMask causal_mask = CausalMask::per_microbatch;
  Precision precision = Precision::fp16;
  /// The kinds of the layers from the first on; the pattern repeats until the last layer. If it is
  /// empty, all layers are of the model's own kind.
  std::vector<LayerRun> pattern{};

  friend bool operator==(ModelConfig const&, ModelConfig const&) = default;
};

/// The number of layers after which the pattern repeats. Pre: it is not empty.
std::int64_t pattern_layers(ModelConfig const& model);

/// The kind that the pattern gives a layer, even if the layer's number makes it dense. Pre: 0 <=
/// layer.
LayerConfig const& written_kind(ModelConfig const& model, std::int64_t layer);

/// The kind of a layer: what the pattern says, but with experts only if the layer is sparse.
/// LayerKinds has the kinds of all layers. Pre: 0 <= layer.
LayerConfig layer_kind(ModelConfig const& model, std::int64_t layer);

/// Rows of the table of learned positions.
constexpr std::int64_t position_rows(ModelConfig const& model) {
  return model.position_rows.value_or(model.sequence);
}

/// Whether any layer may be sparse.
bool has_experts(ModelConfig const& model);
/// Whether the router of any layer counts choices over the global batch.
bool counts_over_batch(ModelConfig const& model);

/// Whether the blocks at the end of the model use the word embedding too: as the head's weight, or
/// in modules of multi-token prediction.
constexpr bool embeds_at_end(ModelConfig const& model) {
  return model.tied_embeddings || model.predicted_tokens > 0;
}

/// Dropout rate of the attention core.
constexpr double attention_dropout(LayerConfig const& layer) {
  return layer.attention_dropout.value_or(layer.dropout);
}

constexpr bool stores_masks(LayerConfig const& layer) {
  return layer.dropout_mask == DropoutMask::stored;
}

constexpr bool is_gated(Activation activation) {
  return activation == Activation::swiglu || activation == Activation::geglu ||
         activation == Activation::swiglu_clamped;
}

constexpr bool has_latents(ModelConfig const& model) { return model.latent_attention.key_rank > 0; }

/// Elements of a value head; those of queries and keys are head_dim.
constexpr std::int64_t value_dim(ModelConfig const& model) {
  return has_latents(model) ? model.latent_attention.value_dim : model.head_dim;
}

/// Twice the number of pairs of a query and a key that it attends to, in one sequence and head.
/// Without a window it counts half of the square as attended: the pairs are s^2 / 2.
constexpr std::int64_t attended_square(std::int64_t sequence, std::int64_t window) {
  return window == 0 || window >= sequence ? sequence * sequence : window * (2 * sequence - window);
}

}  // namespace stagecraft
