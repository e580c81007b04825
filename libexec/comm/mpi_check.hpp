#pragma once

#include <mpi.h>

#include <source_location>

namespace stagecraft {

/// \throws CommunicationError  with MPI's own words, and with the function that called.
void check(int status, std::source_location const& where = std::source_location::current());

}  // namespace stagecraft
