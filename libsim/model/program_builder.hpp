#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "libsim/model/block_program.hpp"

namespace stagecraft {

/// Whether the compute stream goes on while a collective runs.
enum class Overlap : std::uint8_t { none, behind_compute };

/// Writes the ops of one block. Modules append their forward ops, then, in reverse order, their
/// backward ops; recompute, waits and liveness are derived afterwards (finish_block).
class ProgramBuilder {
 public:
  /// A block that has no layers.
  ProgramBuilder(BlockProgram::Kind kind, BlockShape const& shape);
  /// A block of layers in a row, by their shapes. Pre: there is one.
  explicit ProgramBuilder(std::vector<BlockShape> layers);

  /// Sizes and keys of the layer that is written.
  BlockShape const& shape() const { return shapes_[static_cast<std::size_t>(layer_)]; }
  ElementType type() const { return activation_type(shape().model.precision); }
  BlockProgram& program() { return program_; }
  Tensor const& tensor(TensorId id) const { return program_.tensor(id); }

  /// Which pass, module and layer the ops that follow belong to.
  void begin(Pass pass, std::string_view module, int layer);

  /// A new microbatch tensor.
  TensorId make(Name name,
                Shape shape,
                ElementType type,
                Category category = Category::activations);
  /// A new microbatch tensor of activation type.
  TensorId make(Name name, Shape shape) { return make(name, shape, type()); }
  /// A strided window on `base`'s buffer.
  TensorId view(Name name, TensorId base, Shape shape, Shape strides, std::int64_t offset);

  /// A parameter and its gradient; the gradient's id is in program().parameters.
  TensorId parameter(Name name, Shape shape, ParameterTraits traits);
  TensorId gradient_of(TensorId weight) const;

  /// Appends an op whose traffic is every operand read and written once.
  Op& add(OpKind kind,
          Name name,
          Phase phase,
          TensorList reads,
          TensorList writes,
          OpAttributes attributes = {});
  /// Appends C (+)= A B; traffic is each matrix once, C twice where it accumulates.
  Op& gemm(Name name, Phase phase, GemmShape const& gemm, TensorId a, TensorId b, TensorId c);
  /// Appends a collective over the tensor group, on its stream. `whole` is the unsharded tensor.
  /// Nothing is appended, and nothing comes back, where t = 1.
  Op* collective(OpKind kind,
                 Name name,
                 Phase phase,
                 TensorId from,
                 TensorId to,
                 TensorId whole,
                 Overlap overlap);

 private:
  void reserve();

  std::vector<BlockShape> shapes_;  ///< by layer
  BlockProgram program_;
  Pass pass_ = Pass::forward;
  std::string_view module_;
  int layer_ = 0;
};

}  // namespace stagecraft
