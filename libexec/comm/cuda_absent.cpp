#include "libexec/comm/collectives.hpp"
#include "libexec/kernels/cuda/device_error.hpp"

// Replaces the CUDA sources in a build without CUDA.

namespace stagecraft {

std::unique_ptr<Communicator> make_device_communicator(Communicator& /*inside*/,
                                                       RankGroups const& /*groups*/,
                                                       Backend& /*backend*/,
                                                       bool /*is_virtual*/) {
  return nullptr;
}

std::unique_ptr<LocalTransport> make_local_transport(DeviceKind device, std::mutex* /*machine*/) {
  if (device == DeviceKind::cuda) throw DeviceError{"built without CUDA"};
  return std::make_unique<HostTransport>();
}

}  // namespace stagecraft
