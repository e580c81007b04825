#pragma once

#include <cstdint>
#include <vector>

#include "libsim/model/op.hpp"
#include "libsim/model/tensor.hpp"
#include "libsim/units/inline_list.hpp"

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

/// The operands of a call. One more than an op has: a product may take a bias along.
using OperandList = InlineList<Operand, TensorList::capacity + 1>;

/// What the kernels of a rank are made for; everything else stands in their calls.
struct KernelNeeds {
  /// The rank's place in its tensor group: which part of a split tensor it holds.
  int tensor_rank = 0;
  /// Types of the activations that they work on, which decide how much workspace they take.
  std::vector<ElementType> types{};
};

/// Where a kernel's random numbers come from. Two kernels with the same draw have the same masks,
/// whatever the layout, the schedule, the recompute policy or the number of threads.
struct RandomDraw {
  std::uint32_t seed = 0;
  std::uint32_t step = 0;        ///< iterations before this one
  std::uint32_t microbatch = 0;  ///< of the global batch: replica * microbatches a replica + k
  std::uint32_t layer = 0;       ///< of the whole model
  DropoutSite site = DropoutSite::embedding;  ///< as the op's attributes name it
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
  Name name;  ///< of the op, for profilers
  OpAttributes attributes;
  OperandList reads;
  OperandList writes;
  RandomDraw draw;
  double loss_gradient = 1;  ///< cross_entropy_backward: factor on the gradient of each token
};

}  // namespace stagecraft
