#include "libexec/comm/mpi/mpi_message.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "libexec/comm/communication_error.hpp"
#include "libexec/comm/mpi/mpi_check.hpp"

namespace stagecraft {

MpiMessage::MpiMessage(MPI_Comm comm, Message const& message, Send send, JobClock const& clock)
    : comm_{comm}, message_{message}, clock_{clock}, is_synchronous_{send == Send::synchronous} {
  if (message.bytes > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw CommunicationError{"a message of " + std::to_string(message.bytes) +
                             " bytes is longer than MPI allows"};
  }
  time_ = {message.posted, message.posted};
  if (message.end == Transfer::End::receive || is_synchronous_) return;
  auto const* const data = static_cast<std::byte const*>(message.data);
  kept_.assign(data, data + message.bytes);
  message_.data = kept_.data();
}

MpiOperation::Progress MpiMessage::advance() {
  bool const is_first = !is_started_;
  if (is_first) start();
  is_started_ = true;
  int is_done = 0;
  MPI_Status status;
  check(MPI_Test(&request_, &is_done, &status));
  if (is_done == 0) return is_first ? Progress::some : Progress::none;
  bool const is_receive = message_.end == Transfer::End::receive;
  if (is_receive) {
    int bytes = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &bytes));
    if (static_cast<std::size_t>(bytes) != message_.bytes) {
      throw std::logic_error{"the ends of a message disagree about its size"};
    }
  }
  // Nothing waits for a buffered send to leave, so the clock may have been reset meanwhile.
  if (is_receive || is_synchronous_) time_.end = std::max(message_.posted, clock_.now());
  return Progress::done;
}

std::string MpiMessage::description() const {
  bool const is_send = message_.end == Transfer::End::send;
  return to_string(message_.payload) + " of microbatch " +
         std::to_string(message_.microbatch.value()) +
         (is_send ? " to be received by rank " : " from rank ") +
         std::to_string(message_.peer.value());
}

void MpiMessage::start() {
  int const bytes = static_cast<int>(message_.bytes);
  if (message_.end == Transfer::End::receive) {
    check(MPI_Irecv(message_.data, bytes, MPI_BYTE, message_.peer.value(), message_.number, comm_,
                    &request_));
    return;
  }
  auto const send = is_synchronous_ ? MPI_Issend : MPI_Isend;
  check(send(message_.data, bytes, MPI_BYTE, message_.peer.value(), message_.number, comm_,
             &request_));
}

}  // namespace stagecraft
