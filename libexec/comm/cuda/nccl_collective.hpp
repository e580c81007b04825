#pragma once

#include "libexec/comm/communicator.hpp"
#include "libexec/comm/cuda/nccl_comm.hpp"

namespace stagecraft {

/// Enqueues a collective of the communicator's ranks on the stream of its CudaCall. `member`: this
/// rank in the communicator, of `members`.
///
/// NCCL gathers and scatters equal pieces; others, of which the last may be short or empty, are a
/// broadcast or a reduction for each piece, made as one call.
/// \throws CommunicationError
/// \throws std::logic_error  for what is no collective, or has a type that is never reduced.
void enqueue_collective(NcclComm& comm, int member, int members, Collective const& collective);

}  // namespace stagecraft
