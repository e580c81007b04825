#pragma once

#include <cstdint>
#include <optional>

namespace stagecraft {

/// Of the MLP; swiglu and geglu are gated: two products of width f, one of them activated.
enum class Activation : std::uint8_t { gelu, swiglu, relu, geglu };
enum class Norm : std::uint8_t { layernorm, rmsnorm };
enum class Positions : std::uint8_t { learned, rotary };
/// What a layer adds to its input x. sequential: attention(norm(x)), then mlp(norm(x + that));
/// parallel: attention(norm(x)) + mlp(norm'(x)) (GPT-NeoX, Falcon 40B); parallel_one_norm: both of
/// one norm (Falcon 7B).
enum class Residual : std::uint8_t { sequential, parallel, parallel_one_norm };
enum class Attention : std::uint8_t { unfused, flash };
/// Whether dropout masks are kept from forward to backward (one byte an element, as in the paper)
/// or regenerated from a counter.
enum class DropoutMask : std::uint8_t { stored, regenerated };
/// Whether unfused attention's softmax and the dropout behind it are two kernels, as Megatron-LM's
/// are, or one (what a compiler of pointwise ops makes of them), which reads and writes less. Both
/// have the same bits.
enum class SoftmaxDropout : std::uint8_t { separate, fused };
/// Whether every microbatch carries a boolean causal mask of s^2 bytes, as Megatron-LM of 2022
/// does.
enum class CausalMask : std::uint8_t { per_microbatch, none };
enum class Precision : std::uint8_t { fp16, bf16, fp32, fp64 };

/// What is trained: the shape of one decoder-only Transformer. Symbols are those of Korthikanti et
/// al. 2022, table 1. Section `model` of a run file.
struct ModelConfig {
  std::int64_t layers = 0;                 ///< L
  std::int64_t hidden = 0;                 ///< h
  std::int64_t heads = 0;                  ///< a
  std::int64_t kv_heads = 0;               ///< groups of grouped-query attention; default heads
  std::int64_t head_dim = 0;               ///< elements a head; default h / a
  std::int64_t sequence = 0;               ///< s
  std::int64_t vocabulary = 0;             ///< v, unpadded
  std::int64_t vocabulary_multiple = 128;  ///< padded to a multiple of this times t
  std::int64_t ffn_hidden = 0;             ///< width of the MLP; default 4 h
  Activation activation = Activation::gelu;
  Norm norm = Norm::layernorm;
  double norm_epsilon = 1e-5;  ///< added to the variance, or to the mean square
  Positions positions = Positions::learned;
  /// Learned positions: rows of their table where those are not s (OPT has s + 2).
  std::optional<std::int64_t> position_rows{};
  double rotary_base = 10000;  ///< rotary positions: wavelengths from 2 pi to 2 pi times this
  bool tied_embeddings = true;
  Residual residual = Residual::sequential;
  double dropout = 0.1;                       ///< rate of all three dropouts, 0 <= rate < 1
  std::optional<double> attention_dropout{};  ///< of the attention core, where it is another
  bool biases = true;                         ///< of the four linear layers of a block
  bool qkv_bias = false;  ///< a bias of the QKV projection alone (Qwen2); no effect with biases
  Attention attention = Attention::unfused;
  SoftmaxDropout softmax_dropout = SoftmaxDropout::separate;
  DropoutMask dropout_mask = DropoutMask::stored;
  CausalMask causal_mask = CausalMask::per_microbatch;
  Precision precision = Precision::fp16;

  friend bool operator==(ModelConfig const&, ModelConfig const&) = default;
};

/// Rows of the table of learned positions.
constexpr std::int64_t position_rows(ModelConfig const& model) {
  return model.position_rows.value_or(model.sequence);
}

/// Dropout rate of the attention core.
constexpr double attention_dropout(ModelConfig const& model) {
  return model.attention_dropout.value_or(model.dropout);
}

constexpr bool stores_masks(ModelConfig const& model) {
  return model.dropout_mask == DropoutMask::stored;
}

constexpr bool is_gated(Activation activation) {
  return activation == Activation::swiglu || activation == Activation::geglu;
}

}  // namespace stagecraft
