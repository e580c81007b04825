#pragma once

#include <nccl.h>

#include <string>

#include "libexec/comm/communication_error.hpp"

namespace stagecraft {

/// \throws CommunicationError  unless the call has succeeded or, of a communicator that does not
/// block, is under way; with NCCL's own words.
inline void check(ncclResult_t status, char const* call) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  char const* const last = ncclGetLastError(nullptr);
  std::string const more = last == nullptr || *last == '\0' ? "" : std::string{": "} + last;
  throw CommunicationError{std::string{"NCCL: "} + call + ": " + ncclGetErrorString(status) + more};
}

}  // namespace stagecraft
