#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "libexec/backends/cuda_backend.hpp"
#include "libexec/kernels/cuda/cuda_check.hpp"

namespace stagecraft {
namespace {

/// The lowest compute capability that the kernels are compiled for (libexec/cuda.cmake).
constexpr int least_major = 8;

/// 13000 is "13.0".
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// cuBLASLt's number is major * 10000 + minor * 100 + patch.
std::string cublas_version_text(std::size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::string versions_text() {
  int driver = 0;
  int runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  return "driver for CUDA " + version_text(driver) + ", CUDA runtime " + version_text(runtime) +
         ", cuBLASLt " + cublas_version_text(cublasLtGetVersion());
}

/// The reason why there are no devices.
std::string obstacle_of(cudaError_t status) {
  if (status == cudaSuccess) return "the driver shows no device";
  int driver = 0;
  bool const is_absent = cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0;
  return is_absent ? "this machine has no NVIDIA driver" : cudaGetErrorString(status);
}

CudaDevice device_number(int ordinal) {
  CudaDevice device;
  device.ordinal = ordinal;
  cudaDeviceProp facts{};
  cudaError_t const status = cudaGetDeviceProperties(&facts, ordinal);
  if (status != cudaSuccess) {
    device.obstacle = cudaGetErrorString(status);
    return device;
  }
  device.name = facts.name;
  device.major = facts.major;
  device.minor = facts.minor;
  device.multiprocessors = facts.multiProcessorCount;
  device.memory = Bytes{static_cast<std::int64_t>(facts.totalGlobalMem)};
  device.address =
      fmt::format("{:08X}:{:02X}:{:02X}.0", facts.pciDomainID, facts.pciBusID, facts.pciDeviceID);
  if (device.major < least_major) {
    device.obstacle = device.name + " has compute capability " + std::to_string(device.major) +
                      "." + std::to_string(device.minor) + "; the kernels need 8.0 or newer";
  }
  return device;
}

}  // namespace

CudaInventory find_cuda_devices() {
  CudaInventory inventory;
  int count = 0;  // stays 0 if there is no driver
  cudaError_t const status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    inventory.obstacle = obstacle_of(status);
    return inventory;
  }
  inventory.versions = versions_text();
  for (int i = 0; i < count; ++i) {
    inventory.devices.push_back(device_number(i));
  }
  return inventory;
}

Bytes free_cuda_memory(int device) {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaSetDevice(device), "cudaSetDevice");
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return Bytes{static_cast<std::int64_t>(free)};
}

}  // namespace stagecraft
