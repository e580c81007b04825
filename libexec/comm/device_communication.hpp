#pragma once

#include <memory>
#include <mutex>

#include "libexec/backends/backend.hpp"
#include "libexec/comm/communicator.hpp"
#include "libexec/comm/local_transport.hpp"
#include "libsim/plan/rank_groups.hpp"

namespace stagecraft {

/// The side of a communicator that orders it against the streams of a rank's device; null where
/// kernels are over when their call returns. `is_virtual`: communication takes its price.
/// Everything must outlive it.
std::unique_ptr<Communicator> make_device_communicator(Communicator& inside,
                                                       RankGroups const& groups,
                                                       Backend& backend,
                                                       bool is_virtual);

/// What moves tensors between ranks that are threads of this process and share a device.
/// `machine`: where time is virtual, what whoever computes holds; else null.
/// \throws DeviceError  where this build does not have the device's.
std::unique_ptr<LocalTransport> make_local_transport(DeviceKind device, std::mutex* machine);

}  // namespace stagecraft
