#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "libsim/program/block_program.hpp"

namespace stagecraft {

/// Whether the compute stream continues while a collective runs.
enum class Overlap : std::uint8_t { none, behind_compute };

/// Writes the ops of one block. Modules append their forward ops, then, in reverse order, their
/// backward ops; recompute, waits and liveness are derived afterwards (finish_block).
class ProgramBuilder {
 public:
  /// A block that has no layers.
  ProgramBuilder(BlockProgram::Kind kind, BlockShape const& shape);
  /// A head. The first shape is its own; the others are those of the modules of multi-token
  /// prediction, which have the layers from 1 on.
  ProgramBuilder(BlockProgram::Kind kind, std::vector<BlockShape> shapes);
  /// A block of consecutive layers with these shapes. Pre: there is at least one.
  explicit ProgramBuilder(std::vector<BlockShape> layers);

  /// The sizes and keys of the current layer.
  BlockShape const& shape() const { return shapes_[static_cast<std::size_t>(layer_)]; }
  ElementType type() const { return activation_type(shape().model.precision); }
  BlockProgram& program() { return program_; }
  Tensor const& tensor(TensorId id) const { return program_.tensor(id); }

  /// Sets the pass, module and layer of the ops that follow.
  void begin(Pass pass, std::string_view module, int layer);
  /// Sets the module alone.
  void begin_module(std::string_view module) { module_ = module; }

  /// Makes a new microbatch tensor.
  TensorId make(Name name,
                Shape shape,
                ElementType type,
                Category category = Category::activations);
  /// The same with the type of activations.
  TensorId make(Name name, Shape shape) { return make(name, shape, type()); }
  /// Says that ops use only `rows` rows of a tensor, though there is room for more. Returns the
  /// tensor.
  TensorId uses_rows(TensorId id, std::int64_t rows);
  /// The same of a tensor whose rows belong to the rank's experts: ops use as many of them as are
  /// expected.
  TensorId of_experts(TensorId id);
  /// Whether ops use fewer rows of it than it has.
  bool has_unused_rows(TensorId id) const;
  /// Bytes that an op moves when it reads or writes a tensor once.
  Bytes moved_bytes(TensorId id) const;
  /// Makes a strided view of `base`'s buffer. Strides and offset are in elements.
  TensorId view(Name name, TensorId base, Shape shape, Shape strides, std::int64_t offset);

  /// Makes a parameter and its gradient, and returns the parameter.
  TensorId parameter(Name name, Shape shape, ParameterTraits traits);
  TensorId gradient_of(TensorId weight) const;
  /// Makes a tensor that is zero at the beginning of an iteration and adds up what its microbatches
  /// give.
  TensorId counter(Name name, Shape shape);

  /// Appends an op. Its traffic reads and writes each operand once.
  Op& add(OpKind kind,
          Name name,
          Phase phase,
          TensorList reads,
          TensorList writes,
          OpAttributes attributes = {});
  /// Appends C (+)= A B. Its traffic moves each matrix once, and C twice if it accumulates.
  Op& gemm(Name name, Phase phase, GemmShape const& gemm, TensorId a, TensorId b, TensorId c);
  /// The same for `gemm.batch` groups of matrices that follow each other. `counts`, if there are
  /// any, say how many rows each group has.
  Op& grouped_gemm(Name name,
                   Phase phase,
                   GemmShape const& gemm,
                   TensorId a,
                   TensorId b,
                   TensorId c,
                   TensorId counts);
  /// Appends a collective over a group of several ranks, which is not overlapped. `whole` is the
  /// unsharded tensor; for an all-to-all, it is what each member sends.
  Op& collective(OpKind kind,
                 Name name,
                 Phase phase,
                 TensorId from,
                 TensorId to,
                 TensorId whole,
                 GroupId group);
  /// Appends a collective over the tensor group, on the group's stream. `whole` is the unsharded
  /// tensor. If t = 1, appends nothing and returns null.
  Op* collective(OpKind kind,
                 Name name,
                 Phase phase,
                 TensorId from,
                 TensorId to,
                 TensorId whole,
                 Overlap overlap);

 private:
  Op& product(OpKind kind,
              Name name,
              Phase phase,
              GemmShape const& gemm,
              TensorId a,
              TensorId b,
              TensorId c);
  void reserve();

  std::vector<BlockShape> shapes_;  ///< by layer
  /// The rows that ops use, by tensor; 0: all. Empty if there is no room for more.
  std::vector<std::int64_t> used_rows_;
  BlockProgram program_;
  Pass pass_ = Pass::forward;
  std::string_view module_;
  int layer_ = 0;
};

}  // namespace stagecraft
