#pragma once

#include "libexec/kernels/cuda/cuda_context.hpp"

/// The CUDA kernel of each op kind for which op_kinds.def names one, a function of the same name.
/// They check their operands as the CPU's do, launch, and return; those that give a number to the
/// host wait for it.
///
/// \throws std::logic_error  naming the op kind, if operands do not fit together.
/// \throws DeviceError  if a launch fails.
namespace stagecraft::cuda_ops {

#define STAGECRAFT_DECLARE_cuda(kind) void kind(CudaContext const& context, KernelCall const& call);
#define STAGECRAFT_DECLARE_none(kind)
#define STAGECRAFT_OP_KIND(kind, op_class, attributes, operands, cpu_kernel, cuda_kernel) \
  STAGECRAFT_DECLARE_##cuda_kernel(kind)
#include "libsim/program/op_kinds.def"
#undef STAGECRAFT_DECLARE_cuda
#undef STAGECRAFT_DECLARE_none

/// Whether gemm() of a product with a bias is faster than gemm() without and then bias_add().
bool gemm_adds_bias(CudaContext const& context, KernelCall const& call);

}  // namespace stagecraft::cuda_ops
