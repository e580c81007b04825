#pragma once

#include "libsim/model/program_builder.hpp"

namespace stagecraft {

/// Rows of tokens, each for one expert, and what belongs to them.
struct RowTensors {
  TensorId rows = no_tensor;           ///< [R, h]
  TensorId probabilities = no_tensor;  ///< [R]: of the row's token for its expert
};

/// What says where the rows of a layer are, from its dispatch to the end of its backward.
struct RowPlaces {
  TensorId row_map = no_tensor;  ///< [T, 2E + 1]; see OpKind::permute
  /// Only if ranks send each other different numbers of rows, as the next one.
  TensorId sent = no_tensor;      ///< [E]: rows for each expert
  TensorId received = no_tensor;  ///< [EP, E/EP]: rows of each member for each expert of the rank
  /// Only if tokens are sent once; row_map is then of the tokens that arrive.
  TensorId rank_map = no_tensor;         ///< [T, 2EP + 1]; see OpKind::spread_tokens
  TensorId sent_tokens = no_tensor;      ///< [EP]: for each member
  TensorId received_tokens = no_tensor;  ///< [EP]: of each member
};

struct Dispatched {
  RowTensors rows;
  RowPlaces places;
};

/// Appends what brings tokens to the ranks of their experts: the permutation by expert, the
/// exchanges over the expert group, the gathers over the expert tensor group, the sort by local
/// expert.
///
/// Reads   x [s or s/t, b, h], probabilities and map [T, E].
/// Source: Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py,
/// MoEAlltoAllTokenDispatcher.
Dispatched dispatch_forward(ProgramBuilder& builder,
                            TensorId x,
                            TensorId probabilities,
                            TensorId map);

struct TokenGradients {
  TensorId x = no_tensor;
  TensorId probabilities = no_tensor;  ///< [T, E]
};

/// Appends its backward. `x` gives the gradient its shape.
TokenGradients dispatch_backward(ProgramBuilder& builder,
                                 RowTensors const& gradients,
                                 RowPlaces const& places,
                                 TensorId x);

/// Appends the way back: y [s or s/t, b, h] is the sum of each token's rows.
TensorId combine_forward(ProgramBuilder& builder, TensorId rows, RowPlaces const& places);
/// Appends its backward. Returns the gradient of the rows.
TensorId combine_backward(ProgramBuilder& builder, TensorId dy, RowPlaces const& places);

}  // namespace stagecraft
