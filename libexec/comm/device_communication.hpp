#pragma once

#include <memory>
#include <mutex>

#include "libexec/backends/backend.hpp"
#include "libexec/comm/communicator.hpp"
#include "libexec/comm/local_transport.hpp"
#include "libsim/ranks/rank_groups.hpp"

namespace stagecraft {

/// Makes the communicator that orders `inside` against the streams of a rank's device. Returns null
/// if the device has none, because its kernels are over when their call returns. `is_virtual`:
/// communication takes its modelled duration. All arguments must outlive the result.
std::unique_ptr<Communicator> make_device_communicator(Communicator& inside,
                                                       RankGroups const& groups,
                                                       Backend& backend,
                                                       bool is_virtual);

/// Makes the transport between ranks that are threads of this process and share a device.
/// `machine`: with a virtual clock, the mutex that a rank holds while it computes; otherwise null.
/// \throws DeviceError  if the program was built without the device.
std::unique_ptr<LocalTransport> make_local_transport(DeviceKind device, std::mutex* machine);

}  // namespace stagecraft
