#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "libexec/kernels/cuda/device_error.hpp"

namespace stagecraft {

/// \throws DeviceError  unless `status` is success; names `call`.
inline void check(cudaError_t status, char const* call) {
  if (status == cudaSuccess) return;
  throw DeviceError{std::string{call} + ": " + cudaGetErrorName(status) + ", " +
                    cudaGetErrorString(status)};
}

}  // namespace stagecraft
