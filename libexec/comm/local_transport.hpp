#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "libexec/backends/backend.hpp"
#include "libexec/comm/communicator.hpp"
#include "libsim/ranks/rank_groups.hpp"

namespace stagecraft {

/// Moves the tensors of ranks that are threads of one process. The caller ensures that nothing else
/// reads or writes them meanwhile.
class LocalTransport {
 public:
  virtual ~LocalTransport() = default;

  /// Runs a collective that all members of a group have issued, directly from and into their
  /// tensors. `calls` are in the order of members.
  /// \throws std::logic_error  if the members disagree.
  virtual void run(std::vector<Collective> const& calls) = 0;

  /// Copies a message whose two ends are posted.
  virtual void copy(Message const& sent, Message const& received) = 0;

  /// Buffers a message whose receiver has not posted yet. `sent` then points to the returned
  /// buffer, which must live until the message is copied.
  virtual std::shared_ptr<void> keep(Message& sent) = 0;
};

/// The transport between tensors in host memory. Its calls return when everything is done.
class HostTransport final : public LocalTransport {
 public:
  void run(std::vector<Collective> const& calls) override;
  void copy(Message const& sent, Message const& received) override;
  std::shared_ptr<void> keep(Message& sent) override;
};

/// Checks that the members of a group agree before their tensors are reduced.
/// \throws std::logic_error  unless all calls are of the same collective.
void require_alike(std::vector<Collective> const& calls);

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
