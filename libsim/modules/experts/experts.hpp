#pragma once

#include "libsim/modules/experts/experts_layer.hpp"

namespace stagecraft {

/// Appends the forward of layer `layer`. Returns the hidden state after the residual add, named
/// `y`.
TensorId experts_forward(
    ProgramBuilder& builder, ExpertsLayer& experts, int layer, TensorId x, Name y);
/// Appends the backward. Returns the gradient of x, the residual path included.
TensorId experts_backward(ProgramBuilder& builder,
                          ExpertsLayer const& experts,
                          int layer,
                          TensorId dy);

}  // namespace stagecraft
