#pragma once

#include <nccl.h>

#include <string>

#include "libexec/comm/communication_error.hpp"

namespace stagecraft {

/// \throws CommunicationError  with NCCL's own text, unless the call has succeeded or is in progress
/// (on a nonblocking communicator).
inline void check(ncclResult_t status, char const* call) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  char const* const last = ncclGetLastError(nullptr);
  std::string const more = last == nullptr || *last == '\0' ? "" : std::string{": "} + last;
  throw CommunicationError{std::string{"NCCL: "} + call + ": " + ncclGetErrorString(status) + more};
}

}  // namespace stagecraft
