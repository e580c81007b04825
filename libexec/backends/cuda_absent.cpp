#include "libexec/backends/cuda_backend.hpp"
#include "libexec/kernels/cuda/device_error.hpp"

// Replaces the CUDA sources in a build without CUDA.

namespace stagecraft {
namespace {

constexpr char const* obstacle =
    "built without CUDA; install the CUDA Toolkit, 12 or newer, and configure with -DWITH_CUDA=ON";

}  // namespace

CudaInventory find_cuda_devices() { return {.devices = {}, .obstacle = obstacle, .versions = {}}; }

std::shared_ptr<ProductChoices> make_product_choices() { return nullptr; }

Bytes free_cuda_memory(int /*device*/) { throw DeviceError{obstacle}; }

std::unique_ptr<Backend> make_cuda_backend(KernelNeeds const& /*needs*/,
                                           int /*device*/,
                                           std::shared_ptr<ProductChoices> const& /*choices*/,
                                           std::shared_ptr<CudnnChoice> const& /*cudnn*/) {
  throw DeviceError{obstacle};
}

}  // namespace stagecraft
