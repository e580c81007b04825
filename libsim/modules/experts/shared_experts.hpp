#pragma once

#include "libsim/modules/feed_forward.hpp"

namespace stagecraft {

/// The experts of a layer that every token uses, as one MLP, with the tensors that forward keeps
/// for backward. A gate multiplies what they compute for a token by sigmoid(gate . x).
/// Source: Megatron-LM, megatron/core/transformer/moe/shared_experts.py; the gate is Qwen2's.
struct SharedExperts {
  FeedForward products{.up = {.owner = "shared_experts.up"},
                       .activation = "shared_experts.activation",
                       .down = {.owner = "shared_experts.down"}};
  TensorId gate = no_tensor;    ///< [1, h]; every rank has all of it
  TensorId input = no_tensor;   ///< x [s or s/t, b, h]: the normed hidden state
  TensorId logits = no_tensor;  ///< [T, 1]: gate . x
  TensorId output = no_tensor;  ///< [s or s/t, b, h], before the gate
};

/// Makes their parameters. Pre: the layer's kind has shared experts.
SharedExperts make_shared_experts(ProgramBuilder& builder);

/// Appends the forward; x is the normed hidden state. Its products read `sent`, which is x or its
/// quantised rows that travel to the routed experts. Returns the output of the shape of x.
TensorId shared_experts_forward(ProgramBuilder& builder,
                                SharedExperts& shared,
                                TensorId x,
                                TensorId sent);
/// Appends the backward and returns the gradient of x. Without a gate, its products read `sent`,
/// the quantised copy of dy.
TensorId shared_experts_backward(ProgramBuilder& builder,
                                 SharedExperts const& shared,
                                 TensorId dy,
                                 TensorId sent);

/// The same in parts, so that the first and the second half compute while tokens travel to the
/// routed experts and back (BlockShape::overlaps_shared). The gate's logits are computed before the
/// tokens leave. With sequence parallelism x is gathered then too, and kept, so that backward does
/// not gather it again.
///
/// Assumes that a rank has one stream for all collectives within a layer. With tensor parallelism
/// the sum of the second product's output therefore queues behind the exchange that brings the
/// tokens back, and as the sum is synchronous, nothing after the product overlaps that exchange.
/// Megatron-LM runs shared experts with their collectives on a stream of their own, so it may
/// overlap more.
/// Source: Megatron-LM, shared_experts.py: pre_forward_comm, linear_fc1_forward_and_act,
/// linear_fc2_forward, post_forward_comm.
void shared_begin_forward(ProgramBuilder& builder, SharedExperts& shared, TensorId x);
void shared_first_half_forward(ProgramBuilder& builder, SharedExperts& shared);
/// Returns the output of the shape of x.
TensorId shared_second_half_forward(ProgramBuilder& builder, SharedExperts& shared);

/// The tensors that the parts of the backward hand on.
struct SharedGradients {
  TensorId output = no_tensor;      ///< gradient of the second product's output, gathered
  TensorId gate_input = no_tensor;  ///< gradient of x, through the gate
  TensorId activation = no_tensor;  ///< gradient of what the second product reads
  TensorId partial = no_tensor;     ///< the rank's part of the gradient of x through the products
};

SharedGradients shared_begin_backward(ProgramBuilder& builder,
                                      SharedExperts const& shared,
                                      TensorId dy);
void shared_second_half_backward(ProgramBuilder& builder,
                                 SharedExperts const& shared,
                                 SharedGradients& gradients);
void shared_first_half_backward(ProgramBuilder& builder,
                                SharedExperts const& shared,
                                SharedGradients& gradients);
/// Returns the gradient of x.
TensorId shared_end_backward(ProgramBuilder& builder,
                             SharedExperts const& shared,
                             SharedGradients const& gradients);

}  // namespace stagecraft
