#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "libexec/kernels/cuda/products/lt_product.hpp"

namespace stagecraft {

/// Times algorithms for one product, each into a temporary result, so that the true result is
/// written only once. While it lives, it holds device memory of the size of C, which it allocates
/// in stream order, so as not to wait for other streams, whose work may wait for other ranks.
class AlgorithmTimer {
 public:
  /// \throws DeviceError  if a second C does not fit in memory.
  AlgorithmTimer(cudaStream_t stream, StridedProduct const& product);
  ~AlgorithmTimer();
  AlgorithmTimer(AlgorithmTimer const&) = delete;
  AlgorithmTimer(AlgorithmTimer&&) = delete;
  AlgorithmTimer& operator=(AlgorithmTimer const&) = delete;
  AlgorithmTimer& operator=(AlgorithmTimer&&) = delete;

  /// The median time of a few launches after one that warms up; nullopt if that one fails. If the
  /// first timed launch takes longer than `worth`, returns its time.
  std::optional<float> milliseconds(std::function<cublasStatus_t(void* c)> const& launch,
                                    float worth = std::numeric_limits<float>::infinity());
  /// The sum of the times of all timed launches.
  float total_milliseconds() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stagecraft
