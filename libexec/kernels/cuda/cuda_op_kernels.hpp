#pragma once

#include "libexec/kernels/cuda/cuda_context.hpp"
#include "libexec/kernels/optimizer_kernels.hpp"

/// The CUDA kernels: one function an op kind, and those of the step. They check their operands as
/// the CPU's do, launch, and return.
///
/// \throws std::logic_error  naming the op kind, where operands do not fit together.
/// \throws DeviceError  where a launch fails.
namespace stagecraft::cuda_ops {

// gemm.cpp
void gemm(CudaContext const& context, KernelCall const& call);
/// Whether gemm() of a product with a bias is faster than gemm() without and then bias_add().
bool gemm_adds_bias(CudaContext const& context, KernelCall const& call);
// norm.cu
void norm(CudaContext const& context, KernelCall const& call);
void norm_backward(CudaContext const& context, KernelCall const& call);
// column_sums.cu
void bias_gradient(CudaContext const& context, KernelCall const& call);
void norm_weight_gradient(CudaContext const& context, KernelCall const& call);
// bias.cu
void bias_add(CudaContext const& context, KernelCall const& call);
void add(CudaContext const& context, KernelCall const& call);
void add_positions(CudaContext const& context, KernelCall const& call);
void positions_gradient(CudaContext const& context, KernelCall const& call);
// heads.cu
void repeat_heads(CudaContext const& context, KernelCall const& call);
void repeat_heads_backward(CudaContext const& context, KernelCall const& call);
void merge_heads(CudaContext const& context, KernelCall const& call);
void concatenate(CudaContext const& context, KernelCall const& call);
// rotary.cu
void rotary(CudaContext const& context, KernelCall const& call);
void rotary_backward(CudaContext const& context, KernelCall const& call);
// softmax.cu
void causal_softmax(CudaContext const& context, KernelCall const& call);
void causal_softmax_backward(CudaContext const& context, KernelCall const& call);
void causal_softmax_dropout(CudaContext const& context, KernelCall const& call);
void causal_softmax_dropout_backward(CudaContext const& context, KernelCall const& call);
// dropout.cu
void dropout(CudaContext const& context, KernelCall const& call);
void dropout_backward(CudaContext const& context, KernelCall const& call);
void bias_dropout_add(CudaContext const& context, KernelCall const& call);
// flash_attention.cu, flash_attention_backward.cu
void flash_attention(CudaContext const& context, KernelCall const& call);
void flash_attention_backward(CudaContext const& context, KernelCall const& call);
// activation.cu
void gelu(CudaContext const& context, KernelCall const& call);
void relu(CudaContext const& context, KernelCall const& call);
void geglu(CudaContext const& context, KernelCall const& call);
void swiglu(CudaContext const& context, KernelCall const& call);
// activation_backward.cu
void gelu_backward(CudaContext const& context, KernelCall const& call);
void relu_backward(CudaContext const& context, KernelCall const& call);
void geglu_backward(CudaContext const& context, KernelCall const& call);
void swiglu_backward(CudaContext const& context, KernelCall const& call);
// embedding.cu
void make_causal_mask(CudaContext const& context, KernelCall const& call);
void embedding(CudaContext const& context, KernelCall const& call);
void embedding_backward(CudaContext const& context, KernelCall const& call);
void slice(CudaContext const& context, KernelCall const& call);
// loss.cu
void convert_logits(CudaContext const& context, KernelCall const& call);
void logits_maximum(CudaContext const& context, KernelCall const& call);
void exponentials(CudaContext const& context, KernelCall const& call);
void cross_entropy(CudaContext const& context, KernelCall const& call);
void cross_entropy_backward(CudaContext const& context, KernelCall const& call);

// step.cu: what optimizer_kernels.hpp promises
void scale(CudaContext const& context, FlatRange const& range, double factor);
bool unscale(CudaContext const& context, FlatRange const& range, double factor);
double sum_of_squares(CudaContext const& context, FlatRange const& range);
void adam(CudaContext const& context,
          AdamUpdate const& update,
          FlatRange const& parameters,
          FlatRange const& first_moment,
          FlatRange const& second_moment,
          FlatRange const& gradient);
void narrow_parameters(CudaContext const& context,
                       FlatRange const& master,
                       FlatRange const& parameters);

}  // namespace stagecraft::cuda_ops
