#pragma once

#include <cuda_runtime.h>

#include "libexec/kernels/cuda/cuda_check.hpp"

namespace stagecraft {

/// Launches a kernel over `blocks` blocks of `threads` threads each. Arguments are converted to the
/// kernel's parameters.
/// \throws DeviceError
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...),
            dim3 blocks,
            dim3 threads,
            cudaStream_t stream,
            Arguments const&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...),
        "launch of a kernel");
}

}  // namespace stagecraft
