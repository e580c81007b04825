#pragma once

#include "libsim/program/tensor.hpp"

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
  /// [ETP EP, E/EP]: those of all ranks that share the experts' weights.
  TensorId computed = no_tensor;
  /// Only if tokens are sent once; row_map is then of the tokens that arrive.
  TensorId rank_map = no_tensor;         ///< [T, 2 EP ETP + 1]; see OpKind::spread_tokens
  TensorId sent_tokens = no_tensor;      ///< [EP ETP]: for each member
  TensorId received_tokens = no_tensor;  ///< [EP ETP]: of each member
};

/// What a dispatch makes.
struct Dispatched {
  RowTensors rows;
  RowPlaces places;
};

/// The gradients of what a dispatch reads.
struct TokenGradients {
  TensorId x = no_tensor;
  TensorId probabilities = no_tensor;  ///< [T, E]
};

}  // namespace stagecraft
