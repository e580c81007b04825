#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libexec/comm/mpi/mpi_progress.hpp"
#include "libexec/comm/thread_group.hpp"

namespace stagecraft {

/// One end of a message. Its number is its tag: an iteration uses each number once, and barriers
/// separate iterations.
///
/// An unbuffered send is synchronous: it ends when its receiver has posted, as blocking p2p
/// requires. A buffered send is copied when it is posted, because MPI reads the sent tensor until
/// the message has left; then the copy is released.
class MpiMessage final : public MpiOperation {
 public:
  enum class Send : std::uint8_t { synchronous, buffered };

  /// \throws CommunicationError  if MPI cannot count its bytes.
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
