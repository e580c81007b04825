#pragma once

#include "libsim/model/linear.hpp"
#include "libsim/model/pointwise.hpp"
#include "libsim/model/program_builder.hpp"

namespace stagecraft {

/// The MLP of one layer: h -> f, activation, f -> h, dropout and residual add, with the tensors
/// that forward keeps for backward. f is split over the tensor group; the first product of a gated
/// activation is 2 f wide.
struct MlpLayer {
  NormLayer norm;  ///< absent with parallel_one_norm, and with norms post
  Linear up{.owner = "mlp.up"};
  TensorId up_bias = no_tensor;
  Linear down{.owner = "mlp.down"};
  ResidualAdd residual{.owner = "mlp.output", .site = DropoutSite::mlp_output};

  TensorId input = no_tensor;             ///< normed hidden state
  TensorId activation_input = no_tensor;  ///< before the bias, which the activation kernel adds
  TensorId activation_output = no_tensor;
};

MlpLayer make_mlp(ProgramBuilder& builder);

struct MlpInputs {
  TensorId x = no_tensor;         ///< before the norm
  TensorId normed = no_tensor;    ///< parallel_one_norm, instead of x: what attention reads too
  TensorId residual = no_tensor;  ///< its output is added to this; x itself in a sequential layer
};

/// Appends the forward of layer `layer`. Returns the hidden state after the residual add, named
/// `y`.
TensorId mlp_forward(
    ProgramBuilder& builder, MlpLayer& mlp, int layer, MlpInputs const& inputs, Name y);
/// Appends the backward. Returns the gradient of x, the residual path included; with
/// parallel_one_norm, the gradient of the normed input alone.
TensorId mlp_backward(ProgramBuilder& builder, MlpLayer const& mlp, int layer, TensorId dy);

}  // namespace stagecraft
