#pragma once

#include "libexec/comm/communicator.hpp"
#include "libexec/comm/cuda/nccl_comm.hpp"

namespace stagecraft {

/// Enqueues a collective on the stream of its CudaCall. `member` is this rank's index in the
/// communicator, which has `members` ranks.
///
/// NCCL gathers and scatters pieces of equal size. If the last piece is shorter or empty, the
/// collective becomes one group call with a broadcast or a reduction per piece.
/// \throws CommunicationError
/// \throws std::logic_error  if the op is not a collective.
void enqueue_collective(NcclComm& comm, int member, int members, Collective const& collective);

}  // namespace stagecraft
