#pragma once

#include "libsim/modules/heads_norm.hpp"
#include "libsim/modules/linear.hpp"
#include "libsim/program/program_builder.hpp"

namespace stagecraft {

/// The projections of latent attention: hidden state -> latents -> queries, keys and values.
///
/// Every tensor rank holds all of the down projections, and applies them to its rows of the
/// sequence. Up projections are cut by heads. All heads share the keys' rotary part.
/// Source: DeepSeek-AI 2024, arXiv:2405.04434, section 2.1; Megatron-LM, multi_latent_attention.py.
struct LatentProjections {
  Linear query{.owner = "attention.query"};  ///< if there is no latent of queries
  Linear query_down{.owner = "attention.query_down"};
  HeadsNorm query_norm{.owner = "attention.query_norm"};
  Linear query_up{.owner = "attention.query_up"};
  Linear key_down{.owner = "attention.key_down"};
  HeadsNorm key_norm{.owner = "attention.key_norm"};
  Linear key_up{.owner = "attention.key_up"};

  TensorId query_normed = no_tensor;  ///< [s or s/t, b, query_rank]
  TensorId key_normed = no_tensor;    ///< [s or s/t, b, key_rank]
};

/// Queries, keys and values by head, or their gradients.
struct LatentHeads {
  TensorId q = no_tensor;  ///< [s, b, a/t, nope + rope]
  TensorId k = no_tensor;  ///< [s, b, a/t, nope + rope]
  TensorId v = no_tensor;  ///< [s, b, a/t, value]
};

void make_latent_projections(ProgramBuilder& builder, LatentProjections& latents);

/// Appends the forward from the normed hidden state `x` of layer `layer`. From the latents on, its
/// ops are of module mla_up_projection.
LatentHeads latent_forward(ProgramBuilder& builder,
                           LatentProjections& latents,
                           int layer,
                           TensorId x);

/// Appends the backward. Returns the gradient of x.
TensorId latent_backward(ProgramBuilder& builder,
                         LatentProjections const& latents,
                         int layer,
                         TensorId x,
                         LatentHeads const& gradients);

}  // namespace stagecraft
