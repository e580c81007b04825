#pragma once

#include "libsim/modules/experts/experts_layer.hpp"

namespace stagecraft {

/// Appends the work of the rank's experts on the rows that arrive: two products with the activation
/// between them. Returns their output [R, h].
TensorId expert_products_forward(ProgramBuilder& builder, ExpertsLayer& layer, int index);
/// Appends the backward. Returns the gradients of the rows and of their probabilities.
RowTensors expert_products_backward(ProgramBuilder& builder,
                                    ExpertsLayer const& layer,
                                    int index,
                                    TensorId dy);

}  // namespace stagecraft
