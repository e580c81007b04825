#pragma once

#include <mpi.h>

namespace stagecraft {

/// \throws CommunicationError  with MPI's own text and the name of the calling function. (clang 14
/// lacks std::source_location.)
void check(int status, char const* caller = __builtin_FUNCTION());

}  // namespace stagecraft
