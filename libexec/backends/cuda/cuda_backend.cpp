#include "libexec/backends/cuda_backend.hpp"

#include <nvtx3/nvToolsExt.h>

#include <new>
#include <utility>

#include "libexec/backends/cuda/cuda_streams.hpp"
#include "libexec/kernels/cuda/cuda_kernels.hpp"

namespace stagecraft {
namespace {

constexpr int poison_byte = 0xff;

/// Shows an op in the timeline of a profiler. Has no cost without one.
class ProfilerRange {
 public:
  explicit ProfilerRange(std::string const& name) { nvtxRangePushA(name.c_str()); }
  ~ProfilerRange() { nvtxRangePop(); }
  ProfilerRange(ProfilerRange const&) = delete;
  ProfilerRange(ProfilerRange&&) = delete;
  ProfilerRange& operator=(ProfilerRange const&) = delete;
  ProfilerRange& operator=(ProfilerRange&&) = delete;
};

/// Memory in use on the current device.
Bytes memory_in_use() {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return Bytes{static_cast<std::int64_t>(total - free)};
}

class CudaBackend : public Backend {
 public:
  CudaBackend(KernelNeeds const& needs,
              int device,
              std::shared_ptr<ProductChoices> choices,
              std::shared_ptr<CudnnChoice> const& cudnn)
      : streams_{device},
        before_{memory_in_use()},
        pool_{make_keeping_pool(device)},
        kernels_{needs, streams_.compute(), std::move(choices), cudnn} {}
  /// Waits, because other ranks of the process may still read this rank's tensors if the job
  /// failed.
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

  bool adds_bias(KernelCall const& product) override { return launching().adds_bias(product); }

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

  Bytes workspace() const override { return kernels_.workspace(); }
  std::optional<DeviceMemoryUse> memory_use() const override {
    std::uint64_t most = 0;
    check(cudaMemPoolGetAttribute(pool_.get(), cudaMemPoolAttrReservedMemHigh, &most),
          "cudaMemPoolGetAttribute");
    return DeviceMemoryUse{.before = before_,
                           .pool_peak = Bytes{static_cast<std::int64_t>(most)},
                           .after = memory_in_use()};
  }
  DeviceTimeline* timeline() override { return &streams_; }

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
  Bytes before_;
  CudaPool pool_;
  CudaKernels kernels_;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(KernelNeeds const& needs,
                                           int device,
                                           std::shared_ptr<ProductChoices> const& choices,
                                           std::shared_ptr<CudnnChoice> const& cudnn) {
  CudaInventory const inventory = find_cuda_devices();
  if (!inventory.obstacle.empty()) throw DeviceError{"no CUDA device: " + inventory.obstacle};
  auto const count = static_cast<int>(inventory.devices.size());
  if (device < 0 || device >= count) {
    throw DeviceError{"no CUDA device " + std::to_string(device) + ": there are " +
                      std::to_string(count)};
  }
  std::string const& obstacle = inventory.devices[static_cast<std::size_t>(device)].obstacle;
  if (!obstacle.empty()) throw DeviceError{obstacle};
  return std::make_unique<CudaBackend>(needs, device, choices, cudnn);
}

}  // namespace stagecraft
