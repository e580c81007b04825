#pragma once

#include "libsim/modules/experts/router_losses.hpp"
#include "libsim/modules/experts/shared_experts.hpp"
#include "libsim/modules/experts/token_dispatch.hpp"
#include "libsim/modules/pointwise.hpp"
#include "libsim/modules/quantised_operands.hpp"
#include "libsim/program/program_builder.hpp"

namespace stagecraft {

/// The part of a sparse layer that takes the place of its MLP: routed experts and, beside them,
/// experts that every token uses; with the tensors that forward keeps for backward.
///
/// T tokens of a rank make T k choices. They are permuted by expert, exchanged over the expert
/// group, gathered over the expert tensor group and sorted by local expert: R = T k ETP rows.
/// Probabilities are applied in the activation, or to what the experts read. The way back mirrors
/// it.
/// Source: Megatron-LM core 0.13, megatron/core/transformer/moe/{moe_layer,token_dispatcher,experts}
/// .py: dispatcher alltoall, with fused permutation and router.
struct ExpertsLayer {
  NormLayer norm;
  TensorId router = no_tensor;  ///< [E, h]; every rank has all of it
  TensorId up = no_tensor;      ///< [E/EP rows of an expert, h], one local expert after the other
  TensorId down = no_tensor;    ///< [E/EP h, columns of an expert]
  TensorId router_bias = no_tensor;  ///< [E]; this and the next two only if experts have biases
  TensorId up_bias = no_tensor;
  TensorId down_bias = no_tensor;  ///< [E/EP h]
  SharedExperts shared{};          ///< absent if the layer has none
  RouterLosses losses{};
  ResidualAdd residual{.owner = "mlp.output", .site = DropoutSite::mlp_output};

  TensorId input = no_tensor;              ///< normed hidden state
  TensorId scores = no_tensor;             ///< [T, E]
  TensorId map = no_tensor;                ///< [T, E]: whether the token chose the expert
  RowPlaces places{};                      ///< where the rows of each token are
  TensorId row_probabilities = no_tensor;  ///< [R]
  TensorId rows = no_tensor;               ///< [R, h]: rows that arrive at the experts
  /// Rows that experts read: `rows`, or these times their probabilities.
  TensorId scaled_rows = no_tensor;
  TensorId activation_input = no_tensor;   ///< [R, f or 2f / ETP]
  TensorId stored_input = no_tensor;       ///< activation_input in 8 bits, if backward has that
  TensorId unweighted_output = no_tensor;  ///< the same before probabilities, if it is kept
  TensorId activation_output = no_tensor;  ///< [R, f / ETP]
  QuantisedOperands up_low{};              ///< of products in 8 bits
  QuantisedOperands down_low{};
};

/// Pre: the layer's kind has experts.
ExpertsLayer make_experts(ProgramBuilder& builder);

}  // namespace stagecraft
