#pragma once

#include <cstdint>
#include <string_view>

#include "libsim/model/program_builder.hpp"

namespace stagecraft {

/// A linear layer whose weight [width, depth] is split over the tensor group: by rows (column
/// parallel in Megatron's terms) or by columns (row parallel). Activations are [s, b, depth] -> [s,
/// b, width].
struct Linear {
  std::string_view owner;  ///< e.g. "attention.qkv"
  TensorId weight = no_tensor;
};

/// The weight of a linear layer that is split by columns and adds to the residual stream; `shape`
/// is a rank's part.
TensorId output_weight(ProgramBuilder& builder, Name name, Shape const& shape);

/// y = x W^T with W split by rows.
///
/// Reads   x [s, b, depth], or its shard [s/t, b, depth] with sequence parallelism, gathered first.
/// Writes  y [s, b, width] of this rank.
/// Source: Korthikanti et al. 2022, figures 4 and 5; Megatron-LM tensor_parallel/layers.py.
TensorId column_parallel_forward(ProgramBuilder& builder, Linear const& linear, TensorId x, Name y);

/// dx = dy W summed over the group, dW += dy^T x.
///
/// Without sequence parallelism dx is all-reduced behind the weight-gradient GEMM. With it, the
/// saved shard of x is gathered again behind the input-gradient GEMM, and dx is reduce-scattered
/// behind the weight-gradient GEMM.
/// Source: Megatron-LM, LinearWithGradAccumulationAndAsyncCommunication.backward.
TensorId column_parallel_backward(ProgramBuilder& builder,
                                  Linear const& linear,
                                  TensorId x,
                                  TensorId dy);

/// y = x W^T summed over the group, with W split by columns: all-reduced, or reduce-scattered to
/// [s/t, b, width] with sequence parallelism. Not overlapped.
TensorId row_parallel_forward(ProgramBuilder& builder, Linear const& linear, TensorId x, Name y);

/// dx = dy W, dW += dy^T x; with sequence parallelism dy is gathered first, not overlapped. `dx`
/// names the result.
TensorId row_parallel_backward(
    ProgramBuilder& builder, Linear const& linear, TensorId x, TensorId dy, Name dx);

}  // namespace stagecraft
