#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "libexec/kernels/cuda/cuda_check.hpp"

namespace stagecraft {

/// The dynamic shared memory of a block. A <cuda_runtime.h> for a compiler other than nvcc, which
/// cannot declare such an array, defines DYNAMIC_SHARED_MEMORY as its address.
template <typename T>
__device__ T* dynamic_shared() {
#ifdef DYNAMIC_SHARED_MEMORY
  return static_cast<T*>(DYNAMIC_SHARED_MEMORY);
#else
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
#endif
}

/// Launches a kernel over `blocks` blocks of `threads` threads, with `shared_bytes` of dynamic
/// shared memory per block, which may be more than the default limit of 48 KiB. Arguments are
/// converted to the kernel's parameters.
/// \throws DeviceError  if the launch fails, or if the device has less shared memory.
template <typename... Parameters, typename... Arguments>
void launch_with_shared(void (*kernel)(Parameters...),
                        dim3 blocks,
                        dim3 threads,
                        std::size_t shared_bytes,
                        cudaStream_t stream,
                        Arguments const&... arguments) {
  if (shared_bytes > std::size_t{48} << 10) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "shared memory for a kernel");
  }
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...),
        "launch of a kernel");
}

/// The same without dynamic shared memory.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...),
            dim3 blocks,
            dim3 threads,
            cudaStream_t stream,
            Arguments const&... arguments) {
  launch_with_shared(kernel, blocks, threads, 0, stream, arguments...);
}

}  // namespace stagecraft
