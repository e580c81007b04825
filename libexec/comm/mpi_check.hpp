#pragma once

#include <mpi.h>

namespace stagecraft {

/// \throws CommunicationError  with MPI's own words, and with the function that called. (A
/// std::source_location would do the same, but not for clang 14.)
void check(int status, char const* caller = __builtin_FUNCTION());

}  // namespace stagecraft
