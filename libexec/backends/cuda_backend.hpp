#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libexec/backends/backend.hpp"
#include "libexec/kernels/cuda/attention/cudnn_choice.hpp"
#include "libexec/kernels/cuda/products/product_choices.hpp"
#include "libexec/kernels/kernel_call.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// A GPU of this machine.
struct CudaDevice {
  int ordinal = 0;
  std::string name;
  int major = 0;  ///< compute capability
  int minor = 0;
  int multiprocessors = 0;
  Bytes memory;
  std::string address;   ///< on the PCI bus, as nvidia-smi writes it
  std::string obstacle;  ///< why the kernels do not run on it, in one line; empty if they do
};

/// The CUDA devices of this machine.
struct CudaInventory {
  std::vector<CudaDevice> devices;  ///< by ordinal
  std::string obstacle;             ///< why there are none, in one line; empty if there are some
  std::string versions;  ///< of driver, runtime and cuBLASLt; empty if there are no devices
};

/// Does not throw: problems are described by `obstacle`.
CudaInventory find_cuda_devices();

/// The free memory of a device. Makes the device the calling thread's current one.
/// \throws DeviceError
Bytes free_cuda_memory(int device);

/// Makes a backend of CUDA kernels on a device of this machine. Kernels run asynchronously to the
/// host; timeline() has their times. `choices`: each shape of product is first timed with many of
/// cuBLASLt's algorithms, once for all backends that share the object; null: cuBLASLt's first
/// choice is taken. `cudnn`: null: flash attention is this library's.
/// \throws DeviceError  naming the obstacle, or the call that failed.
std::unique_ptr<Backend> make_cuda_backend(KernelNeeds const& needs,
                                           int device,
                                           std::shared_ptr<ProductChoices> const& choices = nullptr,
                                           std::shared_ptr<CudnnChoice> const& cudnn = nullptr);

}  // namespace stagecraft
