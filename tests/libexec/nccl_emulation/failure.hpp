#pragma once

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include "nccl.h"

namespace stagecraft::nccl_emulation {

/// What a call of NCCL's interface returns, or reports later, and why.
class Failure : public std::runtime_error {
 public:
  Failure(ncclResult_t code, std::string const& why) : std::runtime_error{why}, code_{code} {}
  ncclResult_t code() const { return code_; }

 private:
  ncclResult_t code_;
};

/// Fails of a call of the system's. \throws std::runtime_error  with its name and errno's text
[[noreturn]] inline void fail(char const* call) {
  throw std::runtime_error{std::string{call} + ": " + std::strerror(errno)};
}

/// Keeps what ncclGetLastError() says. Device's lock is held.
void remember(std::string const& why);

}  // namespace stagecraft::nccl_emulation
