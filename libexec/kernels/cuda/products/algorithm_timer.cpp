#include "libexec/kernels/cuda/products/algorithm_timer.hpp"

#include <algorithm>
#include <array>

#include "libexec/kernels/cuda/cuda_check.hpp"
#include "libexec/kernels/cuda/cuda_handles.hpp"

namespace stagecraft {
namespace {

/// The bytes from the first element of C to its last.
std::size_t extent_of_c(StridedProduct const& product) {
  GemmShape const& g = product.shape;
  std::int64_t const elements =
      (g.batch - 1) * product.matrices[2].stride + (g.m - 1) * product.row_strides[2] + g.n;
  return static_cast<std::size_t>(elements * element_size(product.c_type));
}

}  // namespace

struct AlgorithmTimer::State {
  cudaStream_t stream = nullptr;
  CudaEvent begin = make_event();
  CudaEvent end = make_event();
  void* c = nullptr;
  float total = 0;
};

AlgorithmTimer::AlgorithmTimer(cudaStream_t stream, StridedProduct const& product)
    : state_{std::make_unique<State>()} {
  state_->stream = stream;
  std::size_t const bytes = extent_of_c(product);
  check(cudaMallocAsync(&state_->c, bytes, stream), "cudaMallocAsync");
  check(cudaMemsetAsync(state_->c, 0, bytes, stream), "cudaMemsetAsync");
}

AlgorithmTimer::~AlgorithmTimer() { cudaFreeAsync(state_->c, state_->stream); }

float AlgorithmTimer::total_milliseconds() const { return state_->total; }

std::optional<float> AlgorithmTimer::milliseconds(
    std::function<cublasStatus_t(void* c)> const& launch, float worth) {
  void* const c = state_->c;
  if (launch(c) != CUBLAS_STATUS_SUCCESS) return std::nullopt;
  std::array<float, 5> times{};
  for (float& time : times) {
    check(cudaEventRecord(state_->begin.get(), state_->stream), "cudaEventRecord");
    check(launch(c), "cublasLtMatmul");
    check(cudaEventRecord(state_->end.get(), state_->stream), "cudaEventRecord");
    check(cudaEventSynchronize(state_->end.get()), "cudaEventSynchronize");
    check(cudaEventElapsedTime(&time, state_->begin.get(), state_->end.get()),
          "cudaEventElapsedTime");
    state_->total += time;
    if (&time == times.data() && time > worth) return time;
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

}  // namespace stagecraft
