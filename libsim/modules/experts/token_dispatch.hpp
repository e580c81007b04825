#pragma once

#include <functional>

#include "libsim/modules/experts/dispatched_rows.hpp"
#include "libsim/program/program_builder.hpp"

namespace stagecraft {

/// Appends ops that compute while rows travel; none if empty. Only dispatchers that exchange rows
/// (alltoall) take any.
using Beside = std::function<void()>;

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

}  // namespace stagecraft
