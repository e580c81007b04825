#pragma once

#include <chrono>
#include <vector>

#include "libexec/comm/process_environment.hpp"
#include "libexec/comm/tcp_socket.hpp"

namespace stagecraft {

/// Brings the processes of a job together: rank 0 waits for all others, who find it at one of a few
/// ports, or through a file that rank 0 writes into a shared folder and removes once all are there.
///
/// Both ends say who they are, so that jobs that take each other's ports, and files that a job left
/// behind when it was killed, do no more than cost time.
/// \returns on rank 0 the sockets of ranks 1 and up, elsewhere the one to rank 0
/// \throws CommunicationError  where some do not come in time, or do not belong together.
std::vector<Socket> meet_processes(ProcessPlace const& place, std::chrono::seconds patience);

}  // namespace stagecraft
