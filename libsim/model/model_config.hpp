#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/model/experts_config.hpp"

namespace stagecraft {

/// The activation of the MLP. swiglu and geglu are gated: two products of width f, one activated.
enum class Activation : std::uint8_t { gelu, swiglu, relu, geglu };
enum class Norm : std::uint8_t { layernorm, rmsnorm };
enum class Positions : std::uint8_t { learned, rotary };
/// What a layer adds to its input x. sequential: attention(norm(x)), then mlp(norm(x + that));
/// parallel: attention(norm(x)) + mlp(norm'(x)) (GPT-NeoX, Falcon 40B); parallel_one_norm: the same
/// with one norm for both (Falcon 7B).
enum class Residual : std::uint8_t { sequential, parallel, parallel_one_norm };
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

/// A layer kind: the keys of a model that may differ from layer to layer.
struct LayerConfig {
  std::int64_t ffn_hidden = 0;             ///< width of a dense layer's MLP; default 4 h
  std::optional<ExpertsConfig> experts{};  ///< the kind of a layer: empty if it is dense
  Activation activation = Activation::gelu;
  Norm norm = Norm::layernorm;
  double norm_epsilon = 1e-5;  ///< added to the variance, or to the mean square
  double rotary_base = 10000;  ///< rotary positions: wavelengths from 2 pi to 2 pi times this
  Residual residual = Residual::sequential;
  double dropout = 0.1;                       ///< rate of all three dropouts, 0 <= rate < 1
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
  bool tied_embeddings = true;
  CausalMask causal_mask = CausalMask::per_microbatch;
  Precision precision = Precision::fp16;
  /// The kinds of the layers from the first on; the pattern repeats until the last layer. If it is
  /// empty, all layers are of the model's own kind.
  std::vector<LayerRun> pattern{};

  friend bool operator==(ModelConfig const&, ModelConfig const&) = default;
};

/// The number of layers after which the pattern repeats. Pre: it is not empty.
std::int64_t pattern_layers(ModelConfig const& model);

/// The kind of a layer: what the pattern says, with experts only if the layer is sparse. For all
/// layers of a model, see LayerKinds. Pre: 0 <= layer.
LayerConfig layer_kind(ModelConfig const& model, std::int64_t layer);

/// Rows of the table of learned positions.
constexpr std::int64_t position_rows(ModelConfig const& model) {
  return model.position_rows.value_or(model.sequence);
}

/// Dropout rate of the attention core.
constexpr double attention_dropout(LayerConfig const& layer) {
  return layer.attention_dropout.value_or(layer.dropout);
}

constexpr bool stores_masks(LayerConfig const& layer) {
  return layer.dropout_mask == DropoutMask::stored;
}

constexpr bool is_gated(Activation activation) {
  return activation == Activation::swiglu || activation == Activation::geglu;
}

}  // namespace stagecraft
