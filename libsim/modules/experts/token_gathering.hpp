#pragma once

#include "libsim/modules/experts/dispatched_rows.hpp"
#include "libsim/program/program_builder.hpp"

/// The dispatcher that gathers the tokens of all ranks of an expert group, of which each rank
/// computes those that chose its experts. The four functions are those of token_dispatch.hpp, which
/// calls them.
///
/// What is summed on the way back has the type of the probabilities.
/// Source: Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py,
/// MoEAllGatherTokenDispatcher.
namespace stagecraft {

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

}  // namespace stagecraft
