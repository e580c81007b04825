#pragma once

#include <string_view>

#include "libsim/program/program_builder.hpp"

namespace stagecraft {

/// The losses that a router adds to the loss of the tokens (RouterLossAttributes), with the tensors
/// that forward keeps for backward.
struct RouterLosses {
  TensorId logits = no_tensor;  ///< [T, E]; none without such a loss
  TensorId counts = no_tensor;  ///< choices of each expert, on all ranks that count together
  /// The counts of the iteration's microbatches so far, and the number of these microbatches. Only
  /// if a loss counts over the global batch.
  TensorId counter = no_tensor;
};

/// Declares what the losses of the current layer's router keep between microbatches.
RouterLosses make_router_losses(ProgramBuilder& builder);

/// Appends the losses of the current layer's router, if it has any.
///
/// Reads   logits [T, E].
/// Writes  the counts [1 or b, E] of the choices, summed over the ranks that have other tokens of the
///         microbatch, and the rank's part of the loss. Over the global batch, counts are summed
///         over all ranks of the stage, and are the mean of the microbatches so far.
/// Source: Megatron-LM, megatron/core/transformer/moe/router.py: _apply_aux_loss,
///         _apply_seq_aux_loss, _apply_global_aux_loss, apply_z_loss.
void router_losses_forward(ProgramBuilder& builder, RouterLosses& losses, TensorId logits);
/// Appends the backward, which adds to the gradient of the logits.
void router_losses_backward(ProgramBuilder& builder, RouterLosses const& losses, TensorId d_logits);

}  // namespace stagecraft
