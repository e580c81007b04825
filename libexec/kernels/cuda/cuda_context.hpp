#pragma once

#include <cstddef>

#include "libexec/kernels/cuda/attention/cudnn_attention.hpp"
#include "libexec/kernels/cuda/products/cublaslt_gemm.hpp"
#include "libexec/kernels/kernel_call.hpp"

struct CUstream_st;  ///< what a cudaStream_t points to

namespace stagecraft {

/// What a CUDA kernel uses besides its operands, as KernelContext is for the CPU.
struct CudaContext {
  int tensor_rank = 0;      ///< index in the tensor group
  int expert_rank = 0;      ///< index in the expert group
  SequencePart sequence{};  ///< the rows of a sequence that the rank has
  CUstream_st* stream = nullptr;
  std::byte* scratch = nullptr;  ///< device memory for partial results, scratch_bytes
  CublasLtGemm* gemm = nullptr;
  CudnnAttention* cudnn = nullptr;  ///< null: attention is this library's

  /// Enough for every kernel, independent of its operands.
  static constexpr std::size_t scratch_bytes = std::size_t{4} << 20;

  template <typename T>
  T* scratch_of() const {
    return reinterpret_cast<T*>(scratch);
  }
};

}  // namespace stagecraft
