#pragma once

#include "libsim/modules/linear.hpp"

namespace stagecraft {

/// Two products with an activation between them, h -> f -> h, with the tensors that forward keeps
/// for backward. f is split over the tensor group; the first product of a gated activation is 2 f
/// wide.
struct FeedForward {
  Linear up;
  std::string_view activation;  ///< the owner of its tensors: "mlp.activation"
  Linear down;
  TensorId up_bias = no_tensor;

  TensorId input = no_tensor;
  TensorId activation_input = no_tensor;  ///< before the bias, which the activation kernel adds
  TensorId stored_input = no_tensor;      ///< the same in 8 bits, if backward has that
  TensorId activation_output = no_tensor;
};

/// The tensors that the backward of an activation may read.
struct ActivationTensors {
  TensorId x = no_tensor;
  TensorId bias = no_tensor;
  TensorId y = no_tensor;
};

/// Appends y = activation(x + bias), or activation(x) without a bias, with the model's activation.
void activation_forward(
    ProgramBuilder& builder, std::string_view owner, TensorId x, TensorId bias, TensorId y);
/// Appends its backward into dx.
void activation_backward(ProgramBuilder& builder,
                         std::string_view owner,
                         ActivationTensors const& kept,
                         TensorId dy,
                         TensorId dx);

/// Appends the forward; reads x [s or s/t, b, h]. Returns the output of the same shape.
TensorId feed_forward(ProgramBuilder& builder, FeedForward& layer, TensorId x);
/// Appends the backward. Returns the gradient of x.
TensorId feed_backward(ProgramBuilder& builder, FeedForward const& layer, TensorId dy);

/// The halves of the same with communication apart (see gather_input()): the first product of
/// gathered rows with the activation, and its backward, which returns the part of x's gradient that
/// is left to be summed.
void first_half_forward(ProgramBuilder& builder, FeedForward& layer, TensorId gathered);
TensorId first_half_backward(ProgramBuilder& builder,
                             FeedForward const& layer,
                             TensorId d_activation);

}  // namespace stagecraft
