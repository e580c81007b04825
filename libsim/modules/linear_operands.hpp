#pragma once

#include <cstdint>
#include <string_view>

#include "libsim/modules/quantised_operands.hpp"
#include "libsim/program/program_builder.hpp"

/// What the products of a linear layer read: tensors in 16 bits, or quantised ones, and gathered
/// ones.
namespace stagecraft {

/// A linear layer whose weight [width, depth] is split over the tensor group: by rows (Megatron's
/// column parallel) or by columns (row parallel). It maps [s, b, depth] to [s, b, width].
///
/// If the block quantises, it multiplies in fewer bits: each operand is quantised first, with
/// sequence parallelism before it is gathered, so that what travels is quantised. Backward keeps
/// the input in those bits, for the direction in which the gradient of the weight reads it; one
/// with a scale per tensor that has to be gathered again is kept by rows, and transposed after
/// that.
/// Source: Transformer Engine, pytorch/module/linear.py (supports_only_rowwise_all_gather).
struct Linear {
  std::string_view owner;  ///< e.g. "attention.qkv"
  TensorId weight = no_tensor;
  bool stays_high = false;  ///< it multiplies in model.precision whatever the block does
  /// Backward quantises the input again, which something else keeps, in place of keeping a copy.
  bool quantises_again = false;
  /// A norm is part of the layer, as in Transformer Engine's LayerNormLinear.
  bool has_norm = false;
  /// Backward casts the rows that are kept of the input back to 16 bits, and these by columns.
  bool casts_back = false;
  QuantisedOperands low{};
};

/// Whether its products are quantised.
bool is_low(ProgramBuilder const& builder, Linear const& linear);

/// Columns of what a layer writes and of what it reads.
std::int64_t width_of(ProgramBuilder const& builder, Linear const& linear);
std::int64_t depth_of(ProgramBuilder const& builder, Linear const& linear);
/// The shape of all rows of the microbatch.
Shape whole_rows(ProgramBuilder const& builder, std::int64_t features);

/// Gathers the whole tensor of which `shard` is this rank's part, into a communication buffer
/// unless it is kept.
TensorId gather_rows(ProgramBuilder& builder,
                     Name name,
                     Name op,
                     Phase phase,
                     TensorId shard,
                     std::int64_t features,
                     Overlap overlap,
                     Category category = Category::communication);

/// Gathers the gradient of a row-parallel layer's output to [s, b, width].
TensorId gather_output_gradient(ProgramBuilder& builder, Linear const& linear, TensorId dy);

/// What the product of a forward reads of x, which a column-parallel layer gathers if
/// `is_gathered`, in the bits that the block's library has for that. Makes the copy of the weight,
/// too.
TensorId forward_input(ProgramBuilder& builder, Linear& linear, TensorId x, bool is_gathered);

/// What the products of a backward read: dy and the weight along the rows of dy, dy along its
/// columns.
struct BackwardOperands {
  TensorId dy = no_tensor;
  TensorId weight = no_tensor;
  TensorId dy_by_columns = no_tensor;
};

/// Those of a layer that multiplies in 16 bits.
BackwardOperands high_operands(Linear const& linear, TensorId dy);
/// Those of a gradient of which the rank has all rows.
BackwardOperands backward_operands(ProgramBuilder& builder, Linear const& linear, TensorId dy);
/// Those of a row-parallel layer, whose gradient is gathered: if it is quantised first, in both
/// directions, because the blocks of one are not those of the other.
BackwardOperands gathered_operands(ProgramBuilder& builder, Linear const& linear, TensorId dy);

/// What the product for the gradient of the weight reads of the input x.
TensorId input_by_columns(ProgramBuilder& builder, Linear const& linear, TensorId x);

/// The same of a column-parallel layer, whose input is gathered to [s, b, depth], in two parts:
/// the first gathers what travels, beside the
/// product for the gradient of the input; the second makes of that what the product reads.
TensorId gather_again(ProgramBuilder& builder, Linear const& linear, TensorId x);
TensorId gathered_by_columns(ProgramBuilder& builder, Linear const& linear, TensorId gathered);

}  // namespace stagecraft
