// Launches: what is asked of a kernel or of a host function, and what is enqueued.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <numeric>
#include <utility>

#include "tests/libexec/cuda_emulation/device.hpp"
#include "tests/libexec/cuda_emulation/kernel_launch.hpp"
#include "tests/libexec/cuda_emulation/schedule.hpp"

namespace stagecraft::emulation {
namespace {

bool is_there(Device const& device, Kernel const& kernel) {
  return std::all_of(kernel.memory.begin(), kernel.memory.end(), [&](auto const& range) {
    return range.empty() || device.memory.contains(range.data(), range.size(), MemoryKind::device);
  });
}

void run(Device const& device, Kernel const& kernel) {
  if (!is_there(device, kernel)) {
    throw KernelFailure{kernel.name + ": its memory was freed before it ran"};
  }
  try {
    kernel.body();
  } catch (std::exception const& error) {
    throw KernelFailure{kernel.name + ": " + error.what()};
  }
}

}  // namespace

cudaError_t launch_kernel(cudaStream_t stream, Kernel kernel) {
  return Device::get().call([&](Device& device) {
    CUstream_st& on = device.schedule.stream(stream);
    if (!is_there(device, kernel)) {
      throw Failure{cudaErrorIllegalAddress,
                    kernel.name + ": an argument points to no memory of the device"};
    }
    std::size_t const bytes =
        std::accumulate(kernel.memory.begin(), kernel.memory.end(), std::size_t{0},
                        [](std::size_t sum, auto const& range) { return sum + range.size(); });
    device.schedule.enqueue(on, seconds_of(bytes),
                            [&device, kernel = std::move(kernel)] { run(device, kernel); });
  });
}

bool is_device_memory(void const* address) {
  return Device::get().configure(
      [&](Device const& device) { return device.memory.contains(address, 0, MemoryKind::device); });
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
