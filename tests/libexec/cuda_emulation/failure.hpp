#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace stagecraft::emulation {

/// What a call of the runtime's interface returns, and why.
class Failure : public std::runtime_error {
 public:
  Failure(cudaError_t code, std::string const& why) : std::runtime_error{why}, code_{code} {}
  cudaError_t code() const { return code_; }

 private:
  cudaError_t code_;
};

/// A kernel does what no device would do, or what hangs one.
class KernelFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace stagecraft::emulation
