// Launches: what the runtime asks of a kernel or of a host function, and what it enqueues.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <string_view>

#include "tests/libexec/cuda_emulation/device.hpp"
#include "tests/libexec/cuda_emulation/virtual_time.hpp"

namespace stagecraft::emulation {
namespace {

constexpr double seconds_per_thread = 1e-9;

/// "kernel(float*, long int)" from how the compiler names cudaLaunchKernelEx.
std::string kernel_name(std::string_view signature) {
  constexpr std::string_view begin = "ExpTypes = {";
  auto const from = signature.find(begin);
  auto const to = signature.find("}; ActTypes");
  if (from == std::string_view::npos || to == std::string_view::npos) return "kernel";
  return "kernel(" + std::string{signature.substr(from + begin.size(), to - from - begin.size())} +
         ")";
}

// A block of compute capability 9.0 has 227 KiB, which a kernel has to ask for (CUDA C++
// Programming Guide, 16.9.3).
constexpr std::size_t common_shared_bytes = std::size_t{48} << 10U;
constexpr std::size_t most_shared_bytes = std::size_t{227} << 10U;

void require_launch(cudaLaunchConfig_t const& config,
                    std::size_t allowed_shared,
                    std::string const& kernel) {
  auto const refuse = [&](std::string const& why) {
    throw Failure{cudaErrorInvalidConfiguration, kernel + ": " + why};
  };
  dim3 const& block = config.blockDim;
  dim3 const& grid = config.gridDim;
  unsigned long long const threads = 1ULL * block.x * block.y * block.z;
  if (threads < 1 || threads > 1024 || block.x > 1024 || block.y > 1024 || block.z > 64) {
    refuse("found " + std::to_string(threads) + " threads a block; accepted: 1 to 1024");
  }
  if (grid.x < 1 || grid.x > 0x7FFFFFFFU || grid.y < 1 || grid.y > 65535 || grid.z < 1 ||
      grid.z > 65535) {
    refuse("found a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " +
           std::to_string(grid.z) + " blocks; accepted: 1 to 2147483647 x 65535 x 65535");
  }
  if (config.dynamicSmemBytes > allowed_shared) {
    refuse("found " + std::to_string(config.dynamicSmemBytes) +
           " bytes of dynamic shared memory; accepted: " + std::to_string(allowed_shared));
  }
  if (config.numAttrs != 0) refuse("launch attributes are not emulated");
}

}  // namespace

cudaError_t allow_shared_memory(void const* kernel, int bytes) {
  return Device::get().call([&](Device& device) {
    if (bytes < 0 || static_cast<std::size_t>(bytes) > most_shared_bytes) {
      throw Failure{cudaErrorInvalidValue,
                    "a block has no " + std::to_string(bytes) + " bytes of shared memory"};
    }
    device.allowed_shared[kernel] = static_cast<std::size_t>(bytes);
  });
}

cudaError_t enqueue_kernel(cudaLaunchConfig_t const& config,
                           void const* kernel,
                           char const* signature,
                           Pointers const& pointers,
                           ArgumentBytes arguments,
                           std::function<void()> thread) {
  return Device::get().call([&](Device& device) {
    CUstream_st& stream = device.schedule.stream(config.stream);
    Launch launch{kernel_name(signature),  config.gridDim,    config.blockDim,
                  config.dynamicSmemBytes, std::move(thread), kernel,
                  std::move(arguments)};
    auto const allowed = device.allowed_shared.find(kernel);
    require_launch(config,
                   allowed != device.allowed_shared.end()
                       ? std::max(allowed->second, common_shared_bytes)
                       : common_shared_bytes,
                   launch.kernel);
    for (void const* const pointer : pointers) {
      if (pointer == nullptr || device.memory.contains(pointer, 0)) continue;
      throw Failure{cudaErrorIllegalAddress,
                    launch.kernel + ": an argument points to no memory of the device"};
    }
    double const threads = 1. * config.gridDim.x * config.gridDim.y * config.gridDim.z *
                           config.blockDim.x * config.blockDim.y * config.blockDim.z;
    device.schedule.enqueue(stream, start_seconds + threads * seconds_per_thread,
                            [&device, launch] { device.run_kernel(launch); });
  });
}

}  // namespace stagecraft::emulation

using namespace stagecraft::emulation;

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return Device::get().call([&](Device& device) {
    CUstream_st& on = device.schedule.stream(stream);
    // In a thread of its own: it may wait for another thread, which calls.
    auto const call = std::make_shared<std::future<void>>();
    device.schedule.enqueue(on, start_seconds, [=] {
      *call = std::async(std::launch::async, [=] { function(argument); });
    });
    device.schedule.enqueue_arrival(on, 0, [call] {
      return call->wait_for(std::chrono::seconds{0}) == std::future_status::ready;
    });
  });
}
