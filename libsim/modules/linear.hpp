#pragma once

#include "libsim/modules/linear_operands.hpp"
#include "libsim/program/program_builder.hpp"

namespace stagecraft {

/// Makes the weight of a linear layer that is split by columns and adds to the residual stream.
/// `shape` is that of a rank's part.
TensorId output_weight(ProgramBuilder& builder, Name name, Shape const& shape);

/// Appends y = x W^T with W split by rows.
///
/// Reads   x [s, b, depth]; with sequence parallelism its shard [s/t, b, depth], gathered first.
/// Writes  the rank's part of y, [s, b, width / t].
/// Source: Korthikanti et al. 2022, figures 4 and 5; Megatron-LM tensor_parallel/layers.py.
TensorId column_parallel_forward(ProgramBuilder& builder, Linear& linear, TensorId x, Name y);

/// Appends dx = dy W, summed over the group, and dW += dy^T x.
///
/// Without sequence parallelism the all-reduce of dx runs beside the weight-gradient GEMM. With it,
/// the saved shard of x is gathered again beside the input-gradient GEMM, and dx is
/// reduce-scattered beside the weight-gradient GEMM.
/// Source: Megatron-LM, LinearWithGradAccumulationAndAsyncCommunication.backward.
TensorId column_parallel_backward(ProgramBuilder& builder,
                                  Linear const& linear,
                                  TensorId x,
                                  TensorId dy);

/// A column-parallel layer in four parts, so that its communication can run apart from its
/// products: gather_input() gathers x [s/t, b, depth] and keeps it; the product forward reads it;
/// the product backward returns a part of dx that is not yet summed; sum_input_gradient() sums it.
/// Without sequence parallelism x is already gathered. Not quantised.
TensorId gather_input(ProgramBuilder& builder, Linear const& linear, TensorId x);
TensorId column_product_forward(ProgramBuilder& builder, Linear const& linear, TensorId x, Name y);
TensorId column_product_backward(ProgramBuilder& builder,
                                 Linear const& linear,
                                 TensorId x,
                                 TensorId dy);
TensorId sum_input_gradient(ProgramBuilder& builder, Linear const& linear, TensorId partial);

/// Appends y = x W^T with W split by columns, summed over the group: all-reduced, or
/// reduce-scattered to [s/t, b, width] with sequence parallelism. Communication is not overlapped.
TensorId row_parallel_forward(ProgramBuilder& builder, Linear& linear, TensorId x, Name y);

/// Appends dx = dy W and dW += dy^T x; with sequence parallelism dy is gathered first, without
/// overlap. Returns dx.
TensorId row_parallel_backward(
    ProgramBuilder& builder, Linear const& linear, TensorId x, TensorId dy, Name dx);
/// The same with a dy that gather_output_gradient() has gathered. Not quantised.
TensorId row_product_backward(
    ProgramBuilder& builder, Linear const& linear, TensorId x, TensorId dy, Name dx);

/// A linear layer of which every tensor rank has the whole weight, and that works on the rank's own
/// rows of x [s or s/t, b, depth].
TensorId own_rows_forward(ProgramBuilder& builder, Linear& linear, TensorId x, Name y);
/// Returns dx.
TensorId own_rows_backward(ProgramBuilder& builder, Linear const& linear, TensorId x, TensorId dy);

}  // namespace stagecraft
