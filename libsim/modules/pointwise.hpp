#pragma once

#include <string_view>

#include "libsim/program/program_builder.hpp"

namespace stagecraft {

/// Layer-norm or RMS-norm over the hidden dimension of [s or s/t, b, h].
struct NormLayer {
  std::string_view owner;  ///< e.g. "mlp_norm"
  TensorId weight = no_tensor;
  TensorId bias = no_tensor;  ///< layer-norm only
  TensorId input = no_tensor;
  TensorId statistics = no_tensor;  ///< fp32, per row: mean and 1/deviation, or 1/rms
};

/// A vector that every tensor rank holds in full. Each applies it to all rows or, with sequence
/// parallelism, to 1/t of them; then its gradient is a sum over the ranks. It starts as zeros.
ParameterTraits replicated_vector(BlockShape const& shape, std::int64_t size);

/// Makes the parameters of a norm: [h], replicated. With sequence parallelism, each rank computes
/// only a part of their gradients.
NormLayer make_norm(ProgramBuilder& builder, std::string_view owner);
/// Appends y = norm(x) and returns y. Keeps x and the statistics.
TensorId norm_forward(ProgramBuilder& builder, NormLayer& norm, TensorId x, Name y);
/// Appends the backward and returns dx. The parameters' gradients are a kernel of their own, as in
/// apex's fused layer norm.
TensorId norm_backward(ProgramBuilder& builder, NormLayer const& norm, TensorId dy);

/// The end of attention and of the MLP: y = residual + dropout(x + bias), or, with a norm,
/// residual + dropout(norm(x + bias)).
struct ResidualAdd {
  std::string_view owner;
  DropoutSite site = DropoutSite::attention_output;
  TensorId bias = no_tensor;
  NormLayer norm{};           ///< no norm if it has no weight
  TensorId mask = no_tensor;  ///< stored masks only
};

/// Appends the forward and returns y. Keeps the mask (one byte per element) if masks are stored,
/// and the norm's input. A norm's bias is added to x in place.
TensorId residual_forward(
    ProgramBuilder& builder, ResidualAdd& add, TensorId x, TensorId residual, Name y);
/// Appends the backward and returns the gradient of x; the gradient of the residual is dy itself.
/// Accumulates the bias gradient.
TensorId residual_backward(ProgramBuilder& builder, ResidualAdd const& add, TensorId dy);

/// The dropout of hidden states [s or s/t, b, h] at a site.
DropoutAttributes hidden_dropout(BlockShape const& shape, DropoutSite site);

/// Appends y = dropout(x) and returns y. Sets `mask` if masks are stored.
TensorId dropout_forward(ProgramBuilder& builder,
                         DropoutAttributes const& dropout,
                         Name op,
                         Name y,
                         Name mask_name,
                         TensorId x,
                         TensorId& mask);
/// For a forward that kept no mask: draws its dropout again in the backward, and returns y, a
/// recomputed copy.
TensorId dropout_again(
    ProgramBuilder& builder, DropoutAttributes const& dropout, Name op, Name y, TensorId x);
/// Appends dx, in a new buffer, from the mask or from regenerated random numbers, and returns it.
TensorId dropout_backward(ProgramBuilder& builder,
                          DropoutAttributes const& dropout,
                          Name op,
                          Name dx,
                          TensorId dy,
                          TensorId mask);

/// Appends the column sums of dy to the gradient of `bias`; does nothing if there is no bias.
void bias_gradient(ProgramBuilder& builder, std::string_view owner, TensorId dy, TensorId bias);

}  // namespace stagecraft
