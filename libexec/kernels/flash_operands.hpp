#pragma once

#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/operand_checks.hpp"

/// The operand checks of the flash-attention kernels.
namespace stagecraft {

/// The largest head, in elements, that the CUDA kernels support.
inline constexpr std::int64_t most_cuda_flash_elements = 256;

/// Sizes of a call.
struct FlashSizes {
  std::int64_t s, b, heads, kv_heads, d;
  double scale;  ///< of the scores
};

/// Expects q [s, b, heads, d] and k, v [s, b, kv heads, d].
template <typename S>
FlashSizes flash_sizes(KernelCall const& call,
                       Operand const& q,
                       Operand const& k,
                       Operand const& v) {
  Shape const& shape = q.shape;
  expect(call, shape.rank() == 4 && k.shape.rank() == 4, "q or k is not [s, b, heads, d]");
  FlashSizes const sizes{shape[0],   shape[1], shape[2],
                         k.shape[2], shape[3], attributes_of<FlashAttributes>(call).scale};
  Shape const keys{sizes.s, sizes.b, sizes.kv_heads, sizes.d};
  expect_heads(call, q, element_type<S>(), shape);
  expect_heads(call, k, element_type<S>(), keys);
  expect_heads(call, v, element_type<S>(), keys);
  expect(call, sizes.kv_heads > 0 && sizes.heads % sizes.kv_heads == 0,
         "the number of query heads is not a multiple of that of key and value heads");
  return sizes;
}

/// A tensor [s, b, heads d] as [s, b, heads, d].
inline Operand split_heads(KernelCall const& call,
                           Operand const& tokens,
                           ElementType type,
                           FlashSizes const& sizes) {
  expect_tensor(call, tokens, type, {sizes.s, sizes.b, sizes.heads * sizes.d});
  return {.data = tokens.data,
          .type = type,
          .shape = {sizes.s, sizes.b, sizes.heads, sizes.d},
          .strides = {}};
}

/// Operands of a forward call.
struct FlashForwardOperands {
  FlashSizes sizes;
  Operand q, k, v, context;  ///< [s, b, heads or kv heads, d]
  Operand log_sums;          ///< [b, heads, s]
};

template <typename S>
FlashForwardOperands flash_forward_operands(KernelCall const& call) {
  FlashSizes const sizes = flash_sizes<S>(call, call.reads[0], call.reads[1], call.reads[2]);
  expect_tensor(call, call.writes[1], element_type<Compute<S>>(), {sizes.b, sizes.heads, sizes.s});
  return {.sizes = sizes,
          .q = call.reads[0],
          .k = call.reads[1],
          .v = call.reads[2],
          .context = split_heads(call, call.writes[0], element_type<S>(), sizes),
          .log_sums = call.writes[1]};
}

/// Operands of a backward call.
struct FlashBackwardOperands {
  FlashSizes sizes;
  Operand d_context, q, k, v, context;  ///< [s, b, heads or kv heads, d]
  Operand log_sums;                     ///< [b, heads, s]
  Operand dq, dk, dv;                   ///< as q, k, v
};

template <typename S>
FlashBackwardOperands flash_backward_operands(KernelCall const& call) {
  ElementType const type = element_type<S>();
  FlashSizes const sizes = flash_sizes<S>(call, call.reads[1], call.reads[2], call.reads[3]);
  expect_tensor(call, call.reads[5], element_type<Compute<S>>(), {sizes.b, sizes.heads, sizes.s});
  for (std::size_t i = 0; i < 3; ++i) {
    expect_heads(call, call.writes[i], type, call.reads[i + 1].shape);
  }
  return {.sizes = sizes,
          .d_context = split_heads(call, call.reads[0], type, sizes),
          .q = call.reads[1],
          .k = call.reads[2],
          .v = call.reads[3],
          .context = split_heads(call, call.reads[4], type, sizes),
          .log_sums = call.reads[5],
          .dq = call.writes[0],
          .dk = call.writes[1],
          .dv = call.writes[2]};
}

}  // namespace stagecraft
