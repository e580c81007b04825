#pragma once

#include "libexec/kernels/cuda/cuda_context.hpp"
#include "libexec/kernels/optimizer_kernels.hpp"

/// The CUDA kernel of each op kind for which op_kinds.def names one, a function of the same name,
/// and the kernels of the step. They check their operands as the CPU's do, launch, and return.
///
/// \throws std::logic_error  naming the op kind, if operands do not fit together.
/// \throws DeviceError  if a launch fails.
namespace stagecraft::cuda_ops {

#define STAGECRAFT_DECLARE_cuda(kind) void kind(CudaContext const& context, KernelCall const& call);
#define STAGECRAFT_DECLARE_none(kind)
#define STAGECRAFT_OP_KIND(kind, op_class, attributes, operands, cpu_kernel, cuda_kernel) \
  STAGECRAFT_DECLARE_##cuda_kernel(kind)
#include "libsim/model/op_kinds.def"
#undef STAGECRAFT_DECLARE_cuda
#undef STAGECRAFT_DECLARE_none

/// Whether gemm() of a product with a bias is faster than gemm() without and then bias_add().
bool gemm_adds_bias(CudaContext const& context, KernelCall const& call);

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
