#pragma once

#include <cstdint>
#include <string_view>

#include "libsim/program/program_builder.hpp"

namespace stagecraft {

/// An RMS norm of heads [s, b, heads, d], which may be a view. The heads are those of queries or
/// keys, or a latent as one head.
struct HeadsNorm {
  std::string_view owner;  ///< e.g. "attention.q_norm"
  bool across_heads = false;
  TensorId weight = no_tensor;  ///< [d], or across heads [heads d]; null: there is no norm
  TensorId input = no_tensor;
  TensorId statistics = no_tensor;  ///< 1/rms in fp32: [1, s b heads], or across heads [1, s b]
};

/// Makes the weight of `width` elements, which every tensor rank holds in full. `gradient_sum`: the
/// ranks that each compute a part of its gradient.
void make_heads_norm(ProgramBuilder& builder,
                     HeadsNorm& norm,
                     std::int64_t width,
                     std::optional<GroupId> gradient_sum);

/// Appends the forward, which writes `y`, as large as x. Keeps x and the statistics.
void heads_norm_forward(ProgramBuilder& builder, HeadsNorm& norm, TensorId x, TensorId y);

/// Appends the backward, which writes `dx`, as large as x, and adds to the weight's gradient.
void heads_norm_backward(ProgramBuilder& builder, HeadsNorm const& norm, TensorId dy, TensorId dx);

}  // namespace stagecraft
