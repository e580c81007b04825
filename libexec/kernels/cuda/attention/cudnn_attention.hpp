#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "libexec/kernels/cuda/attention/cudnn_choice.hpp"
#include "libexec/kernels/operands/attention_operands.hpp"

struct CUstream_st;  ///< what a cudaStream_t points to

namespace stagecraft {

/// Flash attention by cuDNN on one stream, for the calls that cuDNN takes. It reads and writes what
/// this library's kernels do, the logarithms of the sums of exponentials among them, so that the
/// two can be mixed. One thread at a time may call.
class CudnnAttention {
 public:
  virtual ~CudnnAttention() = default;

  /// Launches a call. Returns false, and says why, if this library's kernel has to run.
  /// \throws DeviceError  if a launch fails.
  virtual bool forward(ElementType type, double dropout, FlashForwardOperands const& all) = 0;
  virtual bool backward(ElementType type, double dropout, FlashBackwardOperands const& all) = 0;
};

/// `workspace`: device memory, which calls use in their order on `stream`; calls that need more are
/// left to this library's kernels. Null, which is said, without cuDNN or in a build without its
/// headers, which compiles cudnn_absent.cpp.
std::unique_ptr<CudnnAttention> make_cudnn_attention(std::shared_ptr<CudnnChoice> const& choice,
                                                     CUstream_st* stream,
                                                     std::span<std::byte> workspace);

/// Launches a copy of sinks [heads] to fp32.
void widen_sinks(
    ElementType type, void const* sinks, std::int64_t heads, float* to, CUstream_st* stream);

}  // namespace stagecraft
