#pragma once

/// X(kind) for every op kind that has a kernel of its own, a function of the same name.
/// (widen_logits and narrow_logits share convert_logits.)
// clang-format off
#define STAGECRAFT_KERNELS(X)                                                  \
  X(gemm)                                                                      \
  X(norm) X(norm_backward) X(norm_weight_gradient)                             \
  X(bias_add) X(bias_gradient) X(add) X(add_positions) X(positions_gradient)   \
  X(repeat_heads) X(repeat_heads_backward) X(merge_heads) X(concatenate)       \
  X(rotary) X(rotary_backward)                                                 \
  X(causal_softmax) X(causal_softmax_backward)                                 \
  X(causal_softmax_dropout) X(causal_softmax_dropout_backward)                 \
  X(dropout) X(dropout_backward) X(bias_dropout_add)                           \
  X(flash_attention) X(flash_attention_backward)                               \
  X(gelu) X(gelu_backward) X(relu) X(relu_backward)                            \
  X(geglu) X(geglu_backward) X(swiglu) X(swiglu_backward)                      \
  X(make_causal_mask) X(embedding) X(embedding_backward) X(slice)              \
  X(logits_maximum) X(exponentials) X(cross_entropy) X(cross_entropy_backward)
// clang-format on
