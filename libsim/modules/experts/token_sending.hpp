#pragma once

#include "libsim/modules/experts/dispatched_rows.hpp"
#include "libsim/program/program_builder.hpp"

/// How tokens reach their experts if each is sent once to every rank that has some of them, and is
/// permuted there; and how what experts return is summed on these ranks before it is sent back.
/// Source: deepseek-ai/DeepEP, intranode and internode dispatch and combine; Megatron-LM,
/// token_dispatcher.py, _DeepepManager.
namespace stagecraft {

/// As the functions of token_dispatch.hpp. Pre: shape.sends_tokens_once() of the builder's shape.
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
