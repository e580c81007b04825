#pragma once

#include <array>

#include "libsim/modules/attention/latent_projections.hpp"
#include "libsim/modules/heads_norm.hpp"
#include "libsim/modules/linear.hpp"
#include "libsim/modules/pointwise.hpp"
#include "libsim/program/program_builder.hpp"

namespace stagecraft {

/// Self-attention of one layer: QKV projection, core attention, output projection, dropout and
/// residual add, with the tensors that forward keeps for backward. Heads are split over the tensor
/// group.
struct AttentionLayer {
  NormLayer norm;             ///< absent with norms post
  LatentProjections latents;  ///< latent attention only, instead of qkv
  Linear qkv{.owner = "attention.qkv"};
  TensorId qkv_bias = no_tensor;
  HeadsNorm q_norm{.owner = "attention.q_norm"};
  HeadsNorm k_norm{.owner = "attention.k_norm"};
  Linear projection{.owner = "attention.projection"};
  TensorId sinks = no_tensor;  ///< [a/t]: a score per head beside those of the keys
  ResidualAdd residual{.owner = "attention.output", .site = DropoutSite::attention_output};

  TensorId input = no_tensor;  ///< normed hidden state
  TensorId q = no_tensor;      ///< after rotary positions
  TensorId k = no_tensor;
  TensorId v = no_tensor;
  TensorId low_q = no_tensor;  ///< the same in 8 bits, if core attention multiplies these
  TensorId low_k = no_tensor;
  TensorId low_v = no_tensor;
  TensorId k_full =
      no_tensor;  ///< repeated to every query head (grouped queries, unfused attention)
  TensorId v_full = no_tensor;
  TensorId q_by_head = no_tensor;  ///< views that unfused attention's GEMMs read: [b, a/t, s, d]
  TensorId k_by_head = no_tensor;
  TensorId v_by_head = no_tensor;
  TensorId scores = no_tensor;  ///< unfused, capped: before the cap
  TensorId softmax_output = no_tensor;
  TensorId dropout_output = no_tensor;  ///< softmax_output itself if there is no dropout
  TensorId dropout_mask = no_tensor;
  TensorId log_sum_exp = no_tensor;  ///< flash attention only
  TensorId ring_kv = no_tensor;      ///< keys and values that a ring brought last
  /// If the rank gathers keys: log_sum_exp of its two chunks of queries.
  std::array<TensorId, 2> chunk_log_sums{no_tensor, no_tensor};
  TensorId context = no_tensor;         ///< [s/c, b, h/t]
  TensorId narrow_context = no_tensor;  ///< the same as backward has it, if that is in 12 bits
  TensorId attended = no_tensor;        ///< what core attention writes: context itself if c = 1
};

AttentionLayer make_attention(ProgramBuilder& builder);

/// Appends the forward of layer `layer`. Returns the hidden state after the residual add, named
/// `y`.
TensorId attention_forward(
    ProgramBuilder& builder, AttentionLayer& attention, int layer, TensorId x, Name y);
/// The gradients that the backward of attention starts from.
struct AttentionGradients {
  TensorId dy = no_tensor;  ///< gradient of its output
  /// Gradient of x on all other paths; dy itself in a sequential layer.
  TensorId elsewhere = no_tensor;
  TensorId normed = no_tensor;  ///< parallel_one_norm: the MLP's gradient of the normed input
};

/// Appends the backward. Returns the gradient of x over all paths.
TensorId attention_backward(ProgramBuilder& builder,
                            AttentionLayer const& attention,
                            int layer,
                            AttentionGradients const& gradients);

/// Appends softmax(q k^T / sqrt(d)) v with a causal mask. Ranks that split the sequence attend to
/// all of it: see `ulysses_exchange`, `ring_attention` and `gathered_attention`.
///
/// Reads   q [s, b, a/t, d], k [s, b, g/t, d] and v [s, b, g/t, d']; d' is d but for latent attention.
/// Writes  unfused: scores, softmax_output, dropout_output [b, a/t, s, s], dropout_mask likewise at one
///         byte, context [s, b, h/t]; flash: context and log_sum_exp [b, a/t, s] in fp32.
/// Work    unfused 4 b s^2 h/t FLOP (two GEMMs over the full square); flash half of it.
/// Source: Korthikanti et al. 2022, section 4.1; Megatron-LM CoreAttention; Dao 2023, section 3.
void core_attention_forward(ProgramBuilder& builder, AttentionLayer& attention);

/// Gradients of q, k and v.
struct QkvGradients {
  TensorId q = no_tensor;
  TensorId k = no_tensor;
  TensorId v = no_tensor;
};
QkvGradients core_attention_backward(ProgramBuilder& builder,
                                     AttentionLayer const& attention,
                                     TensorId d_context);

}  // namespace stagecraft
