#pragma once

#include "libsim/model/feed_forward.hpp"

namespace stagecraft {

/// The experts of a layer that every token uses, as one MLP, with the tensors that forward keeps
/// for backward. A gate multiplies what they compute for a token by sigmoid(gate . x).
/// Source: Megatron-LM, megatron/core/transformer/moe/shared_experts.py; the gate is Qwen2's.
struct SharedExperts {
  FeedForward products{.up = {.owner = "shared_experts.up"},
                       .activation = "shared_experts.activation",
                       .down = {.owner = "shared_experts.down"}};
  TensorId gate = no_tensor;    ///< [1, h]; every rank has all of it
  TensorId logits = no_tensor;  ///< [T, 1]: gate . x
  TensorId output = no_tensor;  ///< [s or s/t, b, h], before the gate
};

/// Makes their parameters. Pre: the layer's kind has shared experts.
SharedExperts make_shared_experts(ProgramBuilder& builder);

/// Appends the forward; x is the normed hidden state. Returns the output of the same shape.
TensorId shared_experts_forward(ProgramBuilder& builder, SharedExperts& shared, TensorId x);
/// Appends the backward. Returns the gradient of x.
TensorId shared_experts_backward(ProgramBuilder& builder, SharedExperts const& shared, TensorId dy);

}  // namespace stagecraft
