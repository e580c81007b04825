#pragma once

#include "libsim/modules/feed_forward.hpp"
#include "libsim/modules/pointwise.hpp"
#include "libsim/program/program_builder.hpp"

namespace stagecraft {

/// The MLP of one layer: norm, products, dropout and residual add.
struct MlpLayer {
  NormLayer norm;  ///< absent with parallel_one_norm, and with norms post
  FeedForward products{
      .up = {.owner = "mlp.up"}, .activation = "mlp.activation", .down = {.owner = "mlp.down"}};
  ResidualAdd residual{.owner = "mlp.output", .site = DropoutSite::mlp_output};
};

MlpLayer make_mlp(ProgramBuilder& builder);

struct MlpInputs {
  TensorId x = no_tensor;  ///< before the norm
  /// With parallel_one_norm, instead of x: the input that attention reads too.
  TensorId normed = no_tensor;
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
