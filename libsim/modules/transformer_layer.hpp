#pragma once

#include <optional>

#include "libsim/modules/attention/attention.hpp"
#include "libsim/modules/experts/experts.hpp"
#include "libsim/modules/mlp.hpp"

namespace stagecraft {

/// One layer: attention, and an MLP or experts.
struct TransformerLayer {
  AttentionLayer attention;
  std::optional<MlpLayer> mlp{};  ///< only in a dense layer
  std::optional<ExpertsLayer> experts{};
};

/// Makes the parameters of a layer of the builder's current shape.
TransformerLayer make_transformer_layer(ProgramBuilder& builder);

/// Appends the forward of layer `index` of the block. Returns the hidden state after it, named `y`.
TensorId layer_forward(
    ProgramBuilder& builder, TransformerLayer& layer, int index, TensorId x, Name y);
/// Appends the backward. Returns the gradient of x.
TensorId layer_backward(ProgramBuilder& builder,
                        TransformerLayer const& layer,
                        int index,
                        TensorId dy);

}  // namespace stagecraft
