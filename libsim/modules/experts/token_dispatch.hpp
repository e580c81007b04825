#pragma once

#include <functional>

#include "libsim/program/program_builder.hpp"
#include "libsim/program/tensor.hpp"

namespace stagecraft {

/// Rows of tokens, each for one expert, with their probabilities.
struct RowTensors {
  TensorId rows = no_tensor;           ///< [R, h]
  TensorId probabilities = no_tensor;  ///< [R]: probability of the row's token for its expert
};

/// The places of a layer's rows, from its dispatch to the end of its backward.
struct RowPlaces {
  TensorId row_map = no_tensor;  ///< [T, 2E + 1]; see OpKind::permute
  /// These three only if ranks send each other different numbers of rows.
  TensorId sent = no_tensor;      ///< [E]: rows for each expert
  TensorId received = no_tensor;  ///< [EP, E/EP]: rows of each member for each expert of the rank
  /// [ETP EP, E/EP]: `received` of all ranks that share the experts' weights.
  TensorId computed = no_tensor;
  /// These three only if tokens are sent once; row_map is then of the tokens that arrive.
  TensorId rank_map = no_tensor;         ///< [T, 2 EP ETP + 1]; see OpKind::spread_tokens
  TensorId sent_tokens = no_tensor;      ///< [EP ETP]: tokens for each member
  TensorId received_tokens = no_tensor;  ///< [EP ETP]: tokens from each member
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

/// Appends ops that compute while rows travel; none if empty. Only dispatchers that exchange rows
/// (alltoall) take any.
using Beside = std::function<void()>;

/// Appends the way of tokens to the ranks of their experts: the permutation by expert, the
/// exchanges over the expert group, the gathers over the expert tensor group, the sort by local
/// expert.
///
/// Reads   x [s or s/t, b, h], probabilities and map [T, E].
/// Source: Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py,
/// MoEAlltoAllTokenDispatcher.
Dispatched dispatch_forward(ProgramBuilder& builder,
                            TensorId x,
                            TensorId probabilities,
                            TensorId map,
                            Beside const& beside = {});

/// Appends its backward. `x` gives the gradient its shape.
TokenGradients dispatch_backward(ProgramBuilder& builder,
                                 RowTensors const& gradients,
                                 RowPlaces const& places,
                                 TensorId x,
                                 Beside const& beside = {});

/// Appends the way back: y [s or s/t, b, h] is the sum of each token's rows.
TensorId combine_forward(ProgramBuilder& builder,
                         TensorId rows,
                         RowPlaces const& places,
                         Beside const& beside = {});
/// Appends its backward. Returns the gradient of the rows.
TensorId combine_backward(ProgramBuilder& builder,
                          TensorId dy,
                          RowPlaces const& places,
                          Beside const& beside = {});

/// The same four functions for the dispatcher that gathers all tokens of the group
/// (token_gathering.cpp).
Dispatched gathering_dispatch_forward(ProgramBuilder& builder,
                                      TensorId x,
                                      TensorId probabilities,
                                      TensorId map);
TokenGradients gathering_dispatch_backward(ProgramBuilder& builder,
                                           RowTensors const& gradients,
                                           RowPlaces const& places,
                                           TensorId x);
TensorId gathering_combine_forward(ProgramBuilder& builder, TensorId rows, RowPlaces const& places);
TensorId gathering_combine_backward(ProgramBuilder& builder, TensorId dy, RowPlaces const& places);

/// The same four functions for the dispatcher that sends each token once to a rank
/// (token_sending.cpp). Pre: the builder's shape sends_tokens_once().
Dispatched sending_dispatch_forward(ProgramBuilder& builder,
                                    TensorId x,
                                    TensorId probabilities,
                                    TensorId map);
TokenGradients sending_dispatch_backward(ProgramBuilder& builder,
                                         RowTensors const& gradients,
                                         RowPlaces const& places,
                                         TensorId x);
TensorId sending_combine_forward(ProgramBuilder& builder, TensorId rows, RowPlaces const& places);
TensorId sending_combine_backward(ProgramBuilder& builder, TensorId dy, RowPlaces const& places);

}  // namespace stagecraft
