#include "libexec/backends/cuda_backend.hpp"

#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <limits>
#include <new>

#include "libexec/backends/cuda/cuda_streams.hpp"
#include "libexec/kernels/cuda/cuda_kernels.hpp"

namespace stagecraft {
namespace {

constexpr int poison_byte = 0xff;
/// What the kernels are compiled for (libexec/cuda.cmake).
constexpr int least_major = 8;

/// Memory that is given back in the order of the compute stream and kept for the next buffers.
CudaPool make_pool(int device) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool = nullptr;
  check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  CudaPool owner{pool};
  std::uint64_t keep_all = std::numeric_limits<std::uint64_t>::max();
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all),
        "cudaMemPoolSetAttribute");
  return owner;
}

/// Shows an op in the timeline of a profiler; costs nothing without one.
class ProfilerRange {
 public:
  explicit ProfilerRange(std::string const& name) { nvtxRangePushA(name.c_str()); }
  ~ProfilerRange() { nvtxRangePop(); }
  ProfilerRange(ProfilerRange const&) = delete;
  ProfilerRange(ProfilerRange&&) = delete;
  ProfilerRange& operator=(ProfilerRange const&) = delete;
  ProfilerRange& operator=(ProfilerRange&&) = delete;
};

class CudaBackend : public Backend {
 public:
  CudaBackend(RankShare const& share, int device)
      : streams_{device}, pool_{make_pool(device)}, kernels_{share, streams_.compute()} {}
  /// Other ranks of the process may still read this one's tensors where a job has failed.
  ~CudaBackend() override { cudaDeviceSynchronize(); }
  CudaBackend(CudaBackend const&) = delete;
  CudaBackend(CudaBackend&&) = delete;
  CudaBackend& operator=(CudaBackend const&) = delete;
  CudaBackend& operator=(CudaBackend&&) = delete;

  void* allocate(std::size_t bytes) override {
    if (bytes == 0) return nullptr;
    void* address = nullptr;
    cudaError_t const status =
        cudaMallocFromPoolAsync(&address, bytes, pool_.get(), streams_.compute());
    if (status == cudaErrorMemoryAllocation) throw std::bad_alloc{};
    check(status, "cudaMallocFromPoolAsync");
    return address;
  }
  void deallocate(void* address, std::size_t /*bytes*/) noexcept override {
    if (address != nullptr) cudaFreeAsync(address, streams_.compute());
  }
  void poison(void* address, std::size_t bytes) noexcept override {
    if (bytes > 0) cudaMemsetAsync(address, poison_byte, bytes, streams_.compute());
  }

  void run(KernelCall const& call) override {
    ProfilerRange const range{to_string(call.name)};
    launching().run(call);
  }

  void zero(FlatRange const& range) override { launching().zero(range); }
  void scale(FlatRange const& range, double factor) override { launching().scale(range, factor); }
  bool unscale(FlatRange const& range, double factor) override {
    return launching().unscale(range, factor);
  }
  double sum_of_squares(FlatRange const& range) override {
    return launching().sum_of_squares(range);
  }
  void adam(AdamUpdate const& update,
            FlatRange const& master,
            FlatRange const& first_moment,
            FlatRange const& second_moment,
            FlatRange const& gradient) override {
    launching().adam(update, master, first_moment, second_moment, gradient);
  }
  void narrow(FlatRange const& from, FlatRange const& to) override { launching().narrow(from, to); }

  void copy(void* target, void const* source, std::size_t bytes) override {
    if (bytes == 0) return;
    streams_.note_compute();
    check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, streams_.compute()),
          "cudaMemcpyAsync");
  }

  void write(void* device, void const* host, std::size_t bytes) override {
    exchange(device, host, bytes, cudaMemcpyHostToDevice);
  }
  void read(void* host, void const* device, std::size_t bytes) override {
    exchange(host, device, bytes, cudaMemcpyDeviceToHost);
  }

  Bytes workspace() const override { return CudaKernels::workspace(); }
  DeviceTimeline* timeline() override { return &streams_; }
  CudaStreams* cuda_streams() override { return &streams_; }

 private:
  CudaKernels& launching() {
    streams_.note_compute();
    return kernels_;
  }
  void exchange(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
    if (bytes == 0) return;
    streams_.note_compute();
    check(cudaMemcpyAsync(to, from, bytes, kind, streams_.compute()), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(streams_.compute()), "cudaStreamSynchronize");
  }

  CudaStreams streams_;
  CudaPool pool_;
  CudaKernels kernels_;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(RankShare const& share, int device) {
  CudaInventory const inventory = find_cuda_devices();
  if (!inventory.obstacle.empty()) throw DeviceError{"no CUDA device: " + inventory.obstacle};
  auto const count = static_cast<int>(inventory.devices.size());
  if (device < 0 || device >= count) {
    throw DeviceError{"no CUDA device " + std::to_string(device) + ": there are " +
                      std::to_string(count)};
  }
  CudaDevice const& facts = inventory.devices[static_cast<std::size_t>(device)];
  if (facts.major < least_major) {
    throw DeviceError{facts.name + " has compute capability " + std::to_string(facts.major) + "." +
                      std::to_string(facts.minor) + "; the kernels need 8.0 or newer"};
  }
  return std::make_unique<CudaBackend>(share, device);
}

}  // namespace stagecraft
