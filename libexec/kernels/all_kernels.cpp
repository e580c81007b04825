#include "libexec/kernels/kernel_table.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/step_kernels.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

constexpr KernelTable make_table() {
  KernelTable table;
  auto const set = [&](OpKind kind, Kernel kernel) {
    table.by_kind[static_cast<std::size_t>(kind)] = kernel;
  };
#define STAGECRAFT_KERNEL(name) set(OpKind::name, name);
  STAGECRAFT_KERNEL(gemm)
  STAGECRAFT_KERNEL(norm)
  STAGECRAFT_KERNEL(norm_backward)
  STAGECRAFT_KERNEL(norm_weight_gradient)
  STAGECRAFT_KERNEL(bias_add)
  STAGECRAFT_KERNEL(bias_gradient)
  STAGECRAFT_KERNEL(rotary)
  STAGECRAFT_KERNEL(rotary_backward)
  STAGECRAFT_KERNEL(repeat_heads)
  STAGECRAFT_KERNEL(repeat_heads_backward)
  STAGECRAFT_KERNEL(causal_softmax)
  STAGECRAFT_KERNEL(causal_softmax_backward)
  STAGECRAFT_KERNEL(dropout)
  STAGECRAFT_KERNEL(dropout_backward)
  STAGECRAFT_KERNEL(merge_heads)
  STAGECRAFT_KERNEL(concatenate)
  STAGECRAFT_KERNEL(flash_attention)
  STAGECRAFT_KERNEL(flash_attention_backward)
  STAGECRAFT_KERNEL(gelu)
  STAGECRAFT_KERNEL(gelu_backward)
  STAGECRAFT_KERNEL(relu)
  STAGECRAFT_KERNEL(relu_backward)
  STAGECRAFT_KERNEL(geglu)
  STAGECRAFT_KERNEL(geglu_backward)
  STAGECRAFT_KERNEL(swiglu)
  STAGECRAFT_KERNEL(swiglu_backward)
  STAGECRAFT_KERNEL(bias_dropout_add)
  STAGECRAFT_KERNEL(add)
  STAGECRAFT_KERNEL(make_causal_mask)
  STAGECRAFT_KERNEL(embedding)
  STAGECRAFT_KERNEL(embedding_backward)
  STAGECRAFT_KERNEL(add_positions)
  STAGECRAFT_KERNEL(positions_gradient)
  STAGECRAFT_KERNEL(slice)
  STAGECRAFT_KERNEL(logits_maximum)
  STAGECRAFT_KERNEL(exponentials)
  STAGECRAFT_KERNEL(cross_entropy)
  STAGECRAFT_KERNEL(cross_entropy_backward)
#undef STAGECRAFT_KERNEL
  set(OpKind::widen_logits, convert_logits);
  set(OpKind::narrow_logits, convert_logits);
  table.scale = scale;
  table.unscale = unscale;
  table.sum_of_squares = sum_of_squares;
  table.adam = adam;
  table.narrow_parameters = narrow_parameters;
  table.reduce = reduce;
  return table;
}

constexpr KernelTable table = make_table();

}  // namespace

KernelTable const& all_kernels() { return table; }

}  // namespace stagecraft::STAGECRAFT_ISA
