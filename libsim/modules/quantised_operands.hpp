#pragma once

#include <cstdint>
#include <string_view>

#include "libsim/program/program_builder.hpp"

namespace stagecraft {

/// The quantised copies of a tensor.
struct Quantised {
  TensorId rows = no_tensor;     ///< for products that sum along its rows
  TensorId columns = no_tensor;  ///< transposed; no_tensor: `rows` serve both
  TensorId amax = no_tensor;     ///< the largest element, if the recipe measures it first

  TensorId by_columns() const { return columns == no_tensor ? rows : columns; }
};

/// What a linear layer whose products are quantised keeps.
struct QuantisedOperands {
  Quantised weight;  ///< from one step to the next
  Quantised input;   ///< from forward to backward
};

/// Which of a linear layer's tensors is quantised: its input or its weight, the same once more in
/// backward, or the gradient of its output.
enum class QuantisedRole : std::uint8_t { input, input_again, weight, weight_again, gradient };

/// Which copies are made of it.
enum class QuantisedCopies : std::uint8_t { both, rows, columns };

/// How it is quantised.
struct QuantiseRequest {
  QuantisedRole role = QuantisedRole::input;
  std::int64_t groups = 1;  ///< of rows, which experts scale apart
  /// Ranks of the tensor group gather what each quantises, so that all need the same scale.
  bool is_gathered = false;
  /// A norm in the same layer makes x, and does in its kernel what it can.
  bool follows_norm = false;
  QuantisedCopies copies = QuantisedCopies::both;
  TensorId amax = no_tensor;  ///< the largest element, if it is known
};

/// Appends what makes x [.., columns] two quantised copies. Those that no op comes to read are left
/// out (trim_quantisation()). With the recipe `current`, its largest element is measured first and,
/// if ranks gather the copies, agreed on. If the block casts again, each copy has an op of its own,
/// and an input has none by columns. With `rowwise`, the copy by columns is made of a transposed
/// one in 16 bits, which the kernel that makes the rows of a gradient writes as well.
/// Source: Transformer Engine, csrc/quantizer.cpp, Float8CurrentScalingQuantizer; torchao,
/// testing/training/roofline_utils.py, get_tensor_memory_traffic_ovhd_s.
Quantised quantise(ProgramBuilder& builder,
                   std::string_view owner,
                   Phase phase,
                   TensorId x,
                   QuantiseRequest const& request);

/// What the product for the gradient of a weight reads of x: its copy by columns or, if there is
/// none though products need one, a copy that is made of the rows here: scales along columns are
/// found anew.
TensorId columns_of(ProgramBuilder& builder,
                    std::string_view owner,
                    QuantisedRole role,
                    Quantised const& x,
                    std::int64_t groups = 1);

/// The copy of a weight that the product for the gradient of its input reads. It is made of the
/// rows here if the library keeps none.
TensorId weight_by_columns(ProgramBuilder& builder,
                           std::string_view owner,
                           Quantised const& weight,
                           std::int64_t groups = 1);

/// Gives rows that travel one by one, if they are quantised, their scales. Returns them.
TensorId with_row_scales(ProgramBuilder& builder, TensorId rows);

/// Makes a tensor; if it is quantised, by rows and with the scales of its groups.
TensorId make_operand(
    ProgramBuilder& builder, Name name, Shape shape, ElementType type, std::int64_t groups = 1);
/// The type of an activation's output, which its kernel may quantise for the product behind it.
ElementType activation_output_type(ProgramBuilder const& builder);

/// Appends what keeps the input x of an activation in 8 bits for backward. Returns that, or
/// no_tensor if backward reads x itself. Megatron-LM casts it without a scale, DeepSeek with those
/// of blocks.
/// Source: Megatron-LM, core/fusions/fused_bias_swiglu.py, fp8_input_store; DeepSeek-AI 2024,
/// DeepSeek-V3, arXiv:2412.19437, section 3.3.3.
TensorId store_input(ProgramBuilder& builder, std::string_view owner, TensorId x);
/// What the activation's backward reads of x, and the activation if it runs again: x, made of
/// `stored` here if there is such.
TensorId restore_input(ProgramBuilder& builder,
                       std::string_view owner,
                       TensorId x,
                       TensorId stored);

/// Keeps what core attention gives, [s, b, h/t], in 12 bits for backward: two elements in three
/// bytes, with a scale for each block of the recipe. Returns no_tensor if the block does not.
TensorId narrow_context(ProgramBuilder& builder, std::string_view owner, TensorId context);
/// The context in 16 bits again.
TensorId widen_context(ProgramBuilder& builder,
                       std::string_view owner,
                       TensorId narrow,
                       Shape const& shape);

/// The transposed copy of a gathered tensor with one scale, or the tensor itself if products do not
/// need one.
TensorId transposed(ProgramBuilder& builder, Name name, Name op, Phase phase, TensorId rows);

/// The copies of a weight [width, depth], or of those of several experts, that are made once per
/// iteration for all of its microbatches.
/// Source: Transformer Engine, pytorch/module/linear.py, is_first_microbatch.
Quantised kept_copies(ProgramBuilder& builder,
                      std::string_view owner,
                      TensorId weight,
                      std::int64_t groups = 1);

/// The quantised copy of a weight that its unit gathers in place of the weight.
/// Source: torchao, float8/fsdp_utils.py, WeightWithDynamicFloat8CastTensor.
Quantised gathered_copy(ProgramBuilder& builder, std::string_view owner, TensorId weight);

}  // namespace stagecraft
