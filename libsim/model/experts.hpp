#pragma once

#include "libsim/model/linear.hpp"
#include "libsim/model/pointwise.hpp"
#include "libsim/model/program_builder.hpp"

namespace stagecraft {

/// The part of a sparse layer that takes the place of its MLP: routed experts and, beside them,
/// experts that every token uses.
struct ExpertsLayer {
  NormLayer norm;
  TensorId router = no_tensor;  ///< [E, h]; every rank has all of it
  TensorId up = no_tensor;      ///< [E/EP rows of an expert, h], one local expert after the other
  TensorId down = no_tensor;    ///< [E/EP h, columns of an expert]
  TensorId router_bias = no_tensor;  ///< [E]; only of experts with biases, as the next two
  TensorId up_bias = no_tensor;
  TensorId down_bias = no_tensor;    ///< [E/EP h]
  TensorId shared_gate = no_tensor;  ///< [1, h]
  Linear shared_up{.owner = "shared_experts.up"};
  Linear shared_down{.owner = "shared_experts.down"};
};

/// Pre: the layer's kind has experts.
ExpertsLayer make_experts(ProgramBuilder& builder);

}  // namespace stagecraft
