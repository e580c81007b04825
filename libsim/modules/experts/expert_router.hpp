#pragma once

#include "libsim/modules/experts/experts_layer.hpp"

namespace stagecraft {

/// The type of a router's probabilities.
inline ElementType probability_type(ProgramBuilder const& builder) {
  return accumulation_type(builder.shape().model.precision);
}

/// Appends the router's product, its losses and its choice. If a capacity counts the tokens of
/// other ranks too, these gather each other's choices first. Returns the probabilities [T, E].
TensorId route_forward(ProgramBuilder& builder, ExpertsLayer& layer);
/// Appends their backward, and returns the gradient of the router's input.
TensorId route_backward(ProgramBuilder& builder,
                        ExpertsLayer const& layer,
                        TensorId d_probabilities);

}  // namespace stagecraft
