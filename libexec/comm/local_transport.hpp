#pragma once

#include <memory>
#include <vector>

#include "libexec/comm/communicator.hpp"

namespace stagecraft {

/// Moves the tensors of ranks that are threads of one process. Who calls has made sure that
/// nobody else touches them meanwhile.
class LocalTransport {
 public:
  virtual ~LocalTransport() = default;

  /// A collective that all members of a group have issued, in the order of members: computes the
  /// result of each, straight from and into their tensors.
  /// \throws std::logic_error  where the members disagree about it.
  virtual void run(std::vector<Collective> const& calls) = 0;

  /// A message whose two ends are posted.
  virtual void copy(Message const& sent, Message const& received) = 0;

  /// Takes a message from its sender before its receiver has posted. `sent` then points to what is
  /// returned, which must live until it is copied.
  virtual std::shared_ptr<void> keep(Message& sent) = 0;
};

/// Between tensors in the host's memory: everything is done when a call returns.
class HostTransport final : public LocalTransport {
 public:
  void run(std::vector<Collective> const& calls) override;
  void copy(Message const& sent, Message const& received) override;
  std::shared_ptr<void> keep(Message& sent) override;
};

/// \throws std::logic_error  unless all calls mean the same collective: a program that lets two
/// ranks disagree must not sum their tensors.
void require_alike(std::vector<Collective> const& calls);

}  // namespace stagecraft
