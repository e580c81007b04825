#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "libsim/model/block_program.hpp"
#include "libsim/model/op.hpp"
#include "libsim/model/tensor.hpp"

namespace stagecraft {

/// A tensor as a kernel sees it: where its first element lies, and how.
struct Operand {
  void* data = nullptr;
  ElementType type = ElementType::f32;
  Shape shape;
  Shape strides;  ///< in elements; of rank 0 where the tensor is contiguous

  std::int64_t stride(int axis) const {
    if (strides.rank() > 0) return strides[axis];
    std::int64_t product = 1;
    for (int i = axis + 1; i < shape.rank(); ++i) product *= shape[i];
    return product;
  }
};

/// At most eight operands, without allocation.
class OperandList {
 public:
  void push_back(Operand const& operand) { operands_[size_++] = operand; }
  Operand const& operator[](std::size_t i) const { return operands_[i]; }
  std::size_t size() const { return size_; }

 private:
  std::array<Operand, 8> operands_{};
  std::size_t size_ = 0;
};

/// Which part of the whole model a rank computes.
struct RankShare {
  BlockShape shape;     ///< sizes of a rank's share
  int tensor_rank = 0;  ///< 0 to shape.tensor - 1

  /// Of the sequence, the first row that this rank has where the sequence is split; else 0.
  std::int64_t first_row() const {
    return shape.sequence_parallel ? tensor_rank * shape.local_sequence() : 0;
  }
  /// Of the a attention heads, the first of this rank.
  std::int64_t first_head() const { return tensor_rank * shape.heads(); }
  /// Of the padded vocabulary, the first row of this rank.
  std::int64_t first_word() const { return tensor_rank * shape.vocabulary(); }
};

/// The dropouts of a model; part of the counter that masks are drawn from.
enum class DropoutSite : std::uint8_t { embedding, attention, attention_output, mlp_output };

/// Where a kernel's random numbers come from. Two kernels with the same draw have the same masks,
/// whatever the layout, the schedule, the recompute policy or the number of threads.
struct RandomDraw {
  std::uint32_t seed = 0;
  std::uint32_t step = 0;        ///< iterations before this one
  std::uint32_t microbatch = 0;  ///< of the global batch: replica * microbatches a replica + k
  std::uint32_t layer = 0;       ///< of the whole model
  DropoutSite site = DropoutSite::embedding;
};

/// One launch of a kernel.
///
/// Element types: 16-bit tensors are computed on in float; f32 and f64 in their own type. What
/// accumulates (gradients of parameters), statistics, log-sum-exp and the loss are f32, in f64
/// models f64.
///
/// A product takes a bias [n] as a third operand, which it adds to every row of C, where
/// Backend::adds_bias() says so.
struct KernelCall {
  OpKind kind = OpKind::hold;
  Name name;       ///< of the op, for profilers
  GemmShape gemm;  ///< gemm and flash attention
  OperandList reads;
  OperandList writes;
  RandomDraw draw;
  double loss_gradient = 1;  ///< cross_entropy_backward: factor on the gradient of each token
};

}  // namespace stagecraft
