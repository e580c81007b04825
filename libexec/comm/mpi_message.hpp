#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libexec/comm/mpi_progress.hpp"
#include "libexec/comm/thread_group.hpp"

namespace stagecraft {

/// One end of a message. Its number is its tag: an iteration uses it once, and iterations are apart
/// by barriers.
///
/// A send that is not buffered is synchronous: it ends when its receiver has posted, as blocking
/// p2p means it. A buffered one is copied when it is posted, since a message that is under way
/// cannot be taken out of its sender's tensor any more; the copy goes when the message has left.
class MpiMessage final : public MpiOperation {
 public:
  enum class Send : std::uint8_t { synchronous, buffered };

  /// \throws CommunicationError  where MPI cannot count its bytes.
  MpiMessage(MPI_Comm comm, Message const& message, Send send, JobClock const& clock);
  Progress advance() override;
  std::string description() const override;

 private:
  void start();

  MPI_Comm comm_;
  Message message_;
  JobClock const& clock_;
  bool is_synchronous_;
  bool is_started_ = false;
  std::vector<std::byte> kept_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace stagecraft
