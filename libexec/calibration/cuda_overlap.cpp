#include <algorithm>
#include <stdexcept>
#include <vector>

#include "libexec/backends/cuda/cuda_streams.hpp"
#include "libexec/backends/random_numbers.hpp"
#include "libexec/calibration/overlap_measurement.hpp"
#include "libexec/calibration/sample_statistics.hpp"

namespace stagecraft {
namespace {

constexpr std::int64_t extent = 4096;
constexpr std::size_t copied_bytes = std::size_t{256} << 20;
constexpr int products = 40;
constexpr int repetitions = 5;

CudaStreams& streams_of(Backend& backend) {
  CudaStreams* const streams = backend.cuda_streams();
  if (streams == nullptr) throw std::invalid_argument{"the backend's device is not CUDA's"};
  return *streams;
}

/// A product, and two buffers between which to copy.
class Workload {
 public:
  Workload(Backend& backend, Precision precision)
      : backend_{backend}, streams_{streams_of(backend)} {
    ElementType const type = activation_type(precision);
    Shape const shape{extent, extent};
    bytes_ = static_cast<std::size_t>(shape.elements() * element_size(type));
    call_.kind = OpKind::gemm;
    call_.attributes = GemmAttributes{{.batch = 1, .m = extent, .n = extent, .k = extent}, type};
    for (Operand* const operand : {&operands_[0], &operands_[1], &operands_[2]}) {
      *operand = {.data = backend.allocate(bytes_), .type = type, .shape = shape, .strides = {}};
      RandomNumbers{type, 1}.write(backend, operand->data, bytes_);
    }
    call_.reads.push_back(operands_[0]);
    call_.reads.push_back(operands_[1]);
    call_.writes.push_back(operands_[2]);
    from_ = backend.allocate(copied_bytes);
    to_ = backend.allocate(copied_bytes);
    RandomNumbers{type, 1}.write(backend, from_, copied_bytes);
  }
  ~Workload() {
    for (Operand const& operand : operands_) backend_.deallocate(operand.data, bytes_);
    backend_.deallocate(from_, copied_bytes);
    backend_.deallocate(to_, copied_bytes);
  }
  Workload(Workload const&) = delete;
  Workload(Workload&&) = delete;
  Workload& operator=(Workload const&) = delete;
  Workload& operator=(Workload&&) = delete;

  /// The seconds that the products take while `copies` run at the same time.
  double seconds(int copies) {
    streams_.restart(true);
    cudaStream_t const other = streams_.stream(Stream::tensor_parallel);
    check(cudaStreamWaitEvent(other, streams_.compute_event(), 0), "cudaStreamWaitEvent");
    for (int i = 0; i < copies; ++i) {
      check(cudaMemcpyAsync(to_, from_, copied_bytes, cudaMemcpyDeviceToDevice, other),
            "cudaMemcpyAsync");
    }
    // The products start only after the copies are issued, which takes the host some time.
    streams_.note_compute();
    auto const begin = streams_.mark();
    for (int i = 0; i < products; ++i) backend_.run(call_);
    auto const end = streams_.mark();
    streams_.synchronize();
    return to_seconds(streams_.time_of(end) - streams_.time_of(begin));
  }

  double seconds_per_copy() {
    streams_.restart(true);
    auto const begin = streams_.mark();
    for (int i = 0; i < products; ++i) backend_.copy(to_, from_, copied_bytes);
    auto const end = streams_.mark();
    streams_.synchronize();
    return to_seconds(streams_.time_of(end) - streams_.time_of(begin)) / products;
  }

 private:
  Backend& backend_;
  CudaStreams& streams_;
  std::size_t bytes_ = 0;
  KernelCall call_;
  Operand operands_[3];
  void* from_ = nullptr;
  void* to_ = nullptr;
};

}  // namespace

double measure_overlap_slowdown(Backend& backend, Precision precision) {
  Workload workload{backend, precision};
  workload.seconds(0);
  // As many copies as last longer than the products do beside them.
  int const copies = 1 + static_cast<int>(3 * workload.seconds(0) / workload.seconds_per_copy());
  std::vector<double> slowdowns;
  for (int i = 0; i < repetitions; ++i) {
    double const alone = workload.seconds(0);
    slowdowns.push_back(1 - alone / workload.seconds(copies));
  }
  return std::clamp(median(slowdowns), 0.0, 0.99);
}

BytesPerSecond measure_copy_bandwidth(Backend& backend, Precision precision) {
  Workload workload{backend, precision};
  workload.seconds_per_copy();
  std::vector<double> seconds;
  seconds.reserve(repetitions);
  for (int i = 0; i < repetitions; ++i) seconds.push_back(workload.seconds_per_copy());
  return {2 * static_cast<double>(copied_bytes) / median(seconds)};
}

}  // namespace stagecraft
