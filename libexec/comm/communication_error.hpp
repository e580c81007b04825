#pragma once

#include <stdexcept>

namespace stagecraft {

/// MPI or NCCL has failed, or is not part of this build. The message quotes the library.
class CommunicationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace stagecraft
