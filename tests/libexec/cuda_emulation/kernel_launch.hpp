#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace stagecraft::emulation {

/// A kernel of an emulated device: a function of the host, which runs when its turn comes.
struct Kernel {
  std::string name;  ///< for errors
  /// What it reads and writes on the device. Each range must lie in an allocation of the device
  /// when the kernel is launched, and still when it runs.
  std::vector<std::span<std::byte const>> memory;
  std::function<void()> body;  ///< must not call the runtime
};

/// Enqueues a kernel. What its body throws breaks the device, as a kernel's fault does.
cudaError_t launch_kernel(cudaStream_t stream, Kernel kernel);

/// Whether an address lies in memory of the device.
bool is_device_memory(void const* address);

}  // namespace stagecraft::emulation
