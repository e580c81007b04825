#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "libexec/kernels/cuda/lt_product.hpp"

namespace stagecraft {

/// Times ways to compute one product, each into a result of its own, so that the true one is
/// written once only. Takes device memory of the size of C while it lives, in the stream's order:
/// other streams, on which work of other ranks may wait, are not waited for.
class AlgorithmTimer {
 public:
  /// \throws DeviceError  where C does not fit a second time.
  AlgorithmTimer(cudaStream_t stream, StridedProduct const& product);
  ~AlgorithmTimer();
  AlgorithmTimer(AlgorithmTimer const&) = delete;
  AlgorithmTimer(AlgorithmTimer&&) = delete;
  AlgorithmTimer& operator=(AlgorithmTimer const&) = delete;
  AlgorithmTimer& operator=(AlgorithmTimer&&) = delete;

  /// Median of a few launches after one to warm up; nothing where the launch refuses. Where the
  /// first takes longer than `worth`, its time alone.
  std::optional<float> milliseconds(std::function<cublasStatus_t(void* c)> const& launch,
                                    float worth = std::numeric_limits<float>::infinity());
  /// Of all launches that were timed.
  float total_milliseconds() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stagecraft
