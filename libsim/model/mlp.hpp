#pragma once

#include "libsim/model/linear.hpp"
#include "libsim/model/pointwise.hpp"
#include "libsim/model/program_builder.hpp"

namespace stagecraft {

/// The MLP of one layer: h -> f, activation, f -> h, dropout and residual add, with what forward
/// keeps for backward. f is split over the tensor group; a gated activation's first product is 2 f
/// wide.
struct MlpLayer {
  NormLayer norm;  ///< not there with parallel_one_norm
  Linear up{.owner = "mlp.up"};
  TensorId up_bias = no_tensor;
  Linear down{.owner = "mlp.down"};
  ResidualAdd residual{.owner = "mlp.output", .site = DropoutSite::mlp_output};

  TensorId input = no_tensor;             ///< normed hidden state
  TensorId activation_input = no_tensor;  ///< before the bias, which the activation kernel adds
  TensorId activation_output = no_tensor;
};

MlpLayer make_mlp(ProgramBuilder& builder);

/// What the MLP reads: `x` before its norm (with parallel_one_norm: `normed`, which the attention
/// reads too), and `residual`, which its output is added to (x itself in a sequential layer).
struct MlpInputs {
  TensorId x = no_tensor;
  TensorId normed = no_tensor;
  TensorId residual = no_tensor;
};

/// Forward of layer `layer`: the hidden state after the residual add, named `y`.
TensorId mlp_forward(
    ProgramBuilder& builder, MlpLayer& mlp, int layer, MlpInputs const& inputs, Name y);
/// Backward: the gradient of x, that of the residual path included; with parallel_one_norm the
/// gradient of the normed input alone.
TensorId mlp_backward(ProgramBuilder& builder, MlpLayer const& mlp, int layer, TensorId dy);

}  // namespace stagecraft
