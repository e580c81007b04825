// Work on streams: what kernels and host functions do.
#include <cuda_runtime.h>

#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "tests/libexec/cuda_emulation/device.hpp"
#include "tests/libexec/cuda_emulation/emulation.hpp"
#include "tests/libexec/cuda_emulation/virtual_time.hpp"

namespace stagecraft::emulation {

cudaError_t enqueue_kernel(cudaStream_t stream,
                           std::span<void const* const> pointers,
                           double seconds,
                           std::function<void()> work) {
  return Device::get().call([&](Device& device) {
    CUstream_st& on = device.schedule.stream(stream);
    for (void const* const pointer : pointers) {
      if (pointer == nullptr || device.memory.contains(pointer, 0)) continue;
      throw Failure{cudaErrorIllegalAddress,
                    "an argument of a kernel points to no memory of the device"};
    }
    device.schedule.enqueue(on, start_seconds + seconds, [work = std::move(work)] {
      try {
        work();
      } catch (std::exception const& failure) {
        throw KernelFailure{failure.what()};
      }
    });
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
