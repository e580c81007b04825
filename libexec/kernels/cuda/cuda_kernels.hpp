#pragma once

#include <memory>

#include "libexec/kernels/cuda/attention/cudnn_choice.hpp"
#include "libexec/kernels/cuda/products/cublaslt_gemm.hpp"
#include "libexec/kernels/kernel_call.hpp"
#include "libsim/units/units.hpp"

struct CUstream_st;  ///< what a cudaStream_t points to

namespace stagecraft {

/// The CUDA kernels of one rank, as CpuKernels is for the CPU, with the same operands, formulas and
/// random numbers. Kernels are launched on one stream and run in issue order; calls return before
/// kernels are over, unless they return a result.
///
/// Results depend only on the operands: no kernel but cuDNN's adds with atomics, and a GEMM's
/// algorithm is chosen once per shape, so that recomputed copies have the same bits. Kernels that
/// hold a row (norms, softmax) support up to 32768 columns, flash attention heads of up to 256
/// elements.
///
/// One thread at a time may call; the device that was current at construction must be current.
class CudaKernels {
 public:
  /// `choices` as in CublasLtGemm. `cudnn`: null: flash attention is this library's; else cuDNN's,
  /// for the calls that it takes.
  /// \throws DeviceError  if the workspace does not fit, or if cuBLASLt does not start.
  CudaKernels(KernelNeeds const& needs,
              CUstream_st* stream,
              std::shared_ptr<ProductChoices> choices = nullptr,
              std::shared_ptr<CudnnChoice> const& cudnn = nullptr);
  ~CudaKernels();
  CudaKernels(CudaKernels const&) = delete;
  CudaKernels(CudaKernels&&) = delete;
  CudaKernels& operator=(CudaKernels const&) = delete;
  CudaKernels& operator=(CudaKernels&&) = delete;

  /// Launches one kernel.
  /// \throws std::logic_error  naming the op kind, if operands do not fit together, or if the kind
  ///         has no kernel.
  /// \throws DeviceError  if a launch fails.
  void run(KernelCall const& call);

  /// Whether a gemm with a bias as third operand is faster than the gemm followed by bias_add.
  /// Measured at the first call for a shape; false if algorithms are not measured.
  bool adds_bias(KernelCall const& product);

  /// The device memory that the object has for scratch space, cuBLASLt and cuDNN. Without cuDNN it
  /// does not depend on the model.
  Bytes workspace() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stagecraft
