#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libsim/program/context_parallel.hpp"
#include "libsim/program/op.hpp"
#include "libsim/program/tensor.hpp"
#include "libsim/units/inline_list.hpp"

namespace stagecraft {

/// A tensor as a kernel sees it: the address of its first element, its type and its layout.
struct Operand {
  void* data = nullptr;
  ElementType type = ElementType::f32;
  Shape shape;
  Shape strides;         ///< in elements; of rank 0 if the tensor is contiguous
  ScaleLayout scales{};  ///< of what follows the elements of a quantised tensor

  std::int64_t stride(int axis) const {
    if (strides.rank() > 0) return strides[axis];
    std::int64_t product = 1;
    for (int i = axis + 1; i < shape.rank(); ++i) product *= shape[i];
    return product;
  }
};

/// The operands of a call. There is one more than an op has, because a product may add a bias.
using OperandList = InlineList<Operand, TensorList::capacity + 1>;

/// The shapes of a backward of flash attention.
struct AttentionNeed {
  ElementType type = ElementType::f32;
  FlashAttributes attributes;
  Shape q, k, v;
};

/// What the kernels of a rank depend on besides their calls.
struct KernelNeeds {
  /// The rank's index in its tensor group, which determines its part of a split tensor.
  int tensor_rank = 0;
  /// Its index in its expert group, which determines the experts that it has.
  int expert_rank = 0;
  /// Which rows of every sequence it has.
  SequencePart sequence{};
  /// The types of the activations that they work on, which determine the size of the workspace.
  std::vector<ElementType> types{};
  /// What a library may need workspace for.
  std::vector<AttentionNeed> attention{};
};

/// The counter and key of a kernel's random numbers. Two kernels with the same draw have the same
/// masks, whatever the layout, schedule, recompute policy and number of threads.
struct RandomDraw {
  std::uint32_t seed = 0;
  std::uint32_t step = 0;        ///< number of iterations before this one
  std::uint32_t microbatch = 0;  ///< in the global batch: replica * microbatches per replica + k
  std::uint32_t layer = 0;       ///< of the whole model
  DropoutSite site = DropoutSite::embedding;  ///< of the op's attributes
};

/// One launch of a kernel.
///
/// Element types: 16-bit tensors are computed on in float; f32 and f64 in their own type. Gradients
/// of parameters, statistics, log-sum-exp and the loss are f32, in f64 models f64.
///
/// If Backend::adds_bias() returned true, a product has a bias [n] as third operand, which it adds
/// to every row of C.
struct KernelCall {
  OpKind kind = OpKind::hold;
  Name name;  ///< the op's name, for profilers
  OpAttributes attributes;
  OperandList reads;
  OperandList writes;
  RandomDraw draw;
  /// grouped_gemm: its counts in host memory, because the host launches a product per group. May be
  /// empty if operands are in host memory.
  std::span<std::int32_t const> counts{};
  double loss_gradient = 1;  ///< cross_entropy_backward: factor on the gradient of each token
  bool decays = false;       ///< adam: whether weight decay applies to these parameters
};

/// Consecutive elements of a buffer.
struct FlatRange {
  void* data = nullptr;
  ElementType type = ElementType::f32;
  std::int64_t elements = 0;

  /// Elements [first, first + count).
  FlatRange part(std::int64_t first, std::int64_t count) const {
    return {static_cast<std::byte*>(data) + first * element_size(type), type, count};
  }
  std::size_t bytes() const { return static_cast<std::size_t>(elements * element_size(type)); }
  Operand operand() const {
    return {.data = data, .type = type, .shape = {elements}, .strides = {}};
  }
};

}  // namespace stagecraft
