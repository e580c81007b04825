#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libexec/backends/backend.hpp"
#include "libexec/kernels/cuda/product_choices.hpp"
#include "libexec/kernels/kernel_call.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// A GPU of this machine.
struct CudaDevice {
  int ordinal = 0;
  std::string name;
  int major = 0;  ///< of the compute capability
  int minor = 0;
  int multiprocessors = 0;
  Bytes memory;
  std::string obstacle;  ///< why the kernels do not run on it, in one line; else empty
};

/// What CUDA finds on this machine.
struct CudaInventory {
  std::vector<CudaDevice> devices;  ///< by ordinal
  std::string obstacle;             ///< why there are none, in one line; else empty
  std::string versions;  ///< driver, runtime and cuBLASLt; empty where there are no devices
};

/// Never fails: what is wrong is the inventory's obstacle.
CudaInventory find_cuda_devices();

/// What nobody has taken of a device's memory; makes the device the calling thread's current one.
/// \throws DeviceError
Bytes free_cuda_memory(int device);

/// The CUDA kernels on a device of this machine. Kernels run behind the host; timeline() is theirs.
/// `choices`: each shape of product is timed with many of cuBLASLt's algorithms first, once for all
/// backends that share them; null: cuBLASLt's own first choice is taken.
/// \throws DeviceError  naming the obstacle, or the call that failed.
std::unique_ptr<Backend> make_cuda_backend(
    KernelNeeds const& needs, int device, std::shared_ptr<ProductChoices> const& choices = nullptr);

}  // namespace stagecraft
