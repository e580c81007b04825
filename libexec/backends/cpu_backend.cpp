#include "libexec/backends/cpu_backend.hpp"

#include <cstring>
#include <fstream>
#include <new>
#include <thread>

namespace stagecraft {
namespace {

constexpr std::align_val_t alignment{64};  ///< a cache line, and any vector register
constexpr int poison_byte = 0xff;

class CpuBackend : public Backend {
 public:
  CpuBackend(KernelNeeds const& needs, CpuKernelOptions const& options)
      : kernels_{needs, options}, workspace_{CpuKernels::workspace(needs.types, options.threads)} {}

  void* allocate(std::size_t bytes) override { return ::operator new(bytes, alignment); }
  void deallocate(void* address, std::size_t /*bytes*/) noexcept override {
    ::operator delete(address, alignment);
  }
  void poison(void* address, std::size_t bytes) noexcept override {
    std::memset(address, poison_byte, bytes);
  }

  void run(KernelCall const& call) override { kernels_.run(call); }

  void copy(void* target, void const* source, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(target, source, bytes);
  }
  void write(void* device, void const* host, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(device, host, bytes);
  }
  void read(void* host, void const* device, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(host, device, bytes);
  }

  Bytes workspace() const override { return workspace_; }

 private:
  CpuKernels kernels_;
  Bytes workspace_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(KernelNeeds const& needs,
                                          CpuKernelOptions const& options) {
  return std::make_unique<CpuBackend>(needs, options);
}

std::string cpu_description() {
  std::string name = "CPU";
  std::ifstream facts{"/proc/cpuinfo"};
  for (std::string line; std::getline(facts, line);) {
    auto const colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      name = line.substr(colon + 2);
      break;
    }
  }
  return name + ", " + std::to_string(std::thread::hardware_concurrency()) + " threads";
}

}  // namespace stagecraft
