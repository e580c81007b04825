#pragma once

#include "libexec/kernels/kernel_context.hpp"

/// One function an op kind; OpKind says what it computes and in which order its operands come. Each
/// is compiled once for every instruction set (CMakeLists.txt), hence the namespace.
///
/// \throws std::logic_error  naming the op kind, where operands do not fit together.
namespace stagecraft::STAGECRAFT_ISA {

// gemm.cpp
void gemm(KernelContext const& context, KernelCall const& call);
// norm.cpp
void norm(KernelContext const& context, KernelCall const& call);
void norm_backward(KernelContext const& context, KernelCall const& call);
void norm_weight_gradient(KernelContext const& context, KernelCall const& call);
// bias.cpp
void bias_add(KernelContext const& context, KernelCall const& call);
void bias_gradient(KernelContext const& context, KernelCall const& call);
void add(KernelContext const& context, KernelCall const& call);
void add_positions(KernelContext const& context, KernelCall const& call);
void positions_gradient(KernelContext const& context, KernelCall const& call);
// heads.cpp
void repeat_heads(KernelContext const& context, KernelCall const& call);
void repeat_heads_backward(KernelContext const& context, KernelCall const& call);
void merge_heads(KernelContext const& context, KernelCall const& call);
void concatenate(KernelContext const& context, KernelCall const& call);
// rotary.cpp
void rotary(KernelContext const& context, KernelCall const& call);
void rotary_backward(KernelContext const& context, KernelCall const& call);
// softmax.cpp
void causal_softmax(KernelContext const& context, KernelCall const& call);
void causal_softmax_backward(KernelContext const& context, KernelCall const& call);
void causal_softmax_dropout(KernelContext const& context, KernelCall const& call);
void causal_softmax_dropout_backward(KernelContext const& context, KernelCall const& call);
// dropout.cpp
void dropout(KernelContext const& context, KernelCall const& call);
void dropout_backward(KernelContext const& context, KernelCall const& call);
void bias_dropout_add(KernelContext const& context, KernelCall const& call);
// flash_attention.cpp, flash_attention_backward.cpp
void flash_attention(KernelContext const& context, KernelCall const& call);
void flash_attention_backward(KernelContext const& context, KernelCall const& call);
// activation.cpp
void gelu(KernelContext const& context, KernelCall const& call);
void gelu_backward(KernelContext const& context, KernelCall const& call);
void relu(KernelContext const& context, KernelCall const& call);
void relu_backward(KernelContext const& context, KernelCall const& call);
void geglu(KernelContext const& context, KernelCall const& call);
void geglu_backward(KernelContext const& context, KernelCall const& call);
void swiglu(KernelContext const& context, KernelCall const& call);
void swiglu_backward(KernelContext const& context, KernelCall const& call);
// embedding.cpp
void make_causal_mask(KernelContext const& context, KernelCall const& call);
void embedding(KernelContext const& context, KernelCall const& call);
void embedding_backward(KernelContext const& context, KernelCall const& call);
void slice(KernelContext const& context, KernelCall const& call);
// loss.cpp
void convert_logits(KernelContext const& context, KernelCall const& call);
void logits_maximum(KernelContext const& context, KernelCall const& call);
void exponentials(KernelContext const& context, KernelCall const& call);
void cross_entropy(KernelContext const& context, KernelCall const& call);
void cross_entropy_backward(KernelContext const& context, KernelCall const& call);

}  // namespace stagecraft::STAGECRAFT_ISA
