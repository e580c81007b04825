// Streams, events, memory, launches: what the runtime's functions check, and what they enqueue.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <string_view>

#include "tests/libexec/cuda_emulation/device.hpp"

/// Keeps nothing: what is freed is given back at once.
struct CUmemPoolHandle_st {
  std::size_t bytes = 0;  ///< allocated from it and not yet freed, as issued
  std::size_t most = 0;
};

namespace stagecraft::emulation {
namespace {

// Virtual time.
constexpr double start_seconds = 1e-6;
constexpr double seconds_per_byte = 1e-12;
constexpr double seconds_per_thread = 1e-9;
double seconds_of(std::size_t bytes) {
  return start_seconds + static_cast<double>(bytes) * seconds_per_byte;
}

void require_destination(Device const& device, void const* memory, std::size_t bytes) {
  if (!device.memory.contains(memory, bytes, MemoryKind::device)) {
    throw Failure{cudaErrorInvalidValue, "no device memory of " + std::to_string(bytes) + " bytes"};
  }
}

/// A side of a copy that is, or is not, on the device.
void require_side(Device const& device, void const* memory, std::size_t bytes, bool on_device) {
  if (on_device) return require_destination(device, memory, bytes);
  if (memory == nullptr || device.memory.contains(memory, 0, MemoryKind::device)) {
    throw Failure{cudaErrorInvalidValue, "a copy's host side is no host memory"};
  }
  if (device.memory.contains(memory, 0) && !device.memory.contains(memory, bytes)) {
    throw Failure{cudaErrorInvalidValue, "a copy leaves its host allocation"};
  }
}

void require_copy(Device const& device,
                  void const* to,
                  void const* from,
                  std::size_t bytes,
                  cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDefault) {
    require_side(device, to, bytes, device.memory.contains(to, 0, MemoryKind::device));
    require_side(device, from, bytes, device.memory.contains(from, 0, MemoryKind::device));
    return;
  }
  require_side(device, to, bytes,
               kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice);
  require_side(device, from, bytes,
               kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice);
}

void* allocate(Device& device, std::size_t bytes, MemoryKind kind) {
  if (bytes == 0) return nullptr;
  void* const memory = device.memory.allocate(bytes, kind);
  if (memory == nullptr) {
    throw Failure{cudaErrorMemoryAllocation, std::to_string(bytes) + " bytes do not fit beside " +
                                                 std::to_string(device.memory.used()) + " of " +
                                                 std::to_string(device.memory.capacity())};
  }
  return memory;
}

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

cudaError_t cudaDeviceSynchronize() {
  return Device::get().call([](Device& device) { device.schedule.run_all(Device::current()); });
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return Device::get().call(
      [&](Device& device) { *memory = allocate(device, bytes, MemoryKind::device); });
}

cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  // Waits for all that may still use it. Its status comes again.
  cudaDeviceSynchronize();
  return Device::get().release(
      [&](Device& device) { device.memory.free(memory, MemoryKind::device); });
}

cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t stream) {
  return Device::get().call([&](Device& device) {
    CUstream_st& on = device.schedule.stream(stream);
    *memory = allocate(device, bytes, MemoryKind::device);
    device.schedule.enqueue(on, start_seconds, {});
  });
}

cudaError_t cudaMallocFromPoolAsync(void** memory,
                                    std::size_t bytes,
                                    cudaMemPool_t pool,
                                    cudaStream_t stream) {
  if (pool == nullptr) return cudaErrorInvalidValue;
  cudaError_t const status = cudaMallocAsync(memory, bytes, stream);
  if (status != cudaSuccess || bytes == 0) return status;
  return Device::get().call([&](Device& device) {
    pool->bytes += bytes;
    pool->most = std::max(pool->most, pool->bytes);
    device.pooled[*memory] = {pool, bytes};
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, cudaMemPoolProps const* properties) {
  return Device::get().call([&](Device& device) {
    if (properties->allocType != cudaMemAllocationTypePinned ||
        properties->location.type != cudaMemLocationTypeDevice || properties->location.id < 0 ||
        properties->location.id >= device.count) {
      throw Failure{cudaErrorInvalidValue, "a pool of a kind that there is not"};
    }
    *pool = new CUmemPoolHandle_st;
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return Device::get().release([&](Device& device) {
    std::erase_if(device.pooled, [&](auto const& entry) { return entry.second.pool == pool; });
    delete pool;
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return Device::get().call([&](Device&) {
    if (pool == nullptr || value == nullptr || attribute != cudaMemPoolAttrReservedMemHigh) {
      throw Failure{cudaErrorInvalidValue, "an attribute that is not emulated"};
    }
    std::uint64_t const most = pool->most;
    std::memcpy(value, &most, sizeof most);
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr, void* value) {
  bool const is_complete = pool != nullptr && value != nullptr;
  return is_complete ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  return Device::get().call([&](Device& device) {
    CUstream_st& on = device.schedule.stream(stream);
    if (memory == nullptr) return;
    require_destination(device, memory, 0);
    if (auto const place = device.pooled.find(memory); place != device.pooled.end()) {
      place->second.pool->bytes -= place->second.bytes;
      device.pooled.erase(place);
    }
    device.schedule.enqueue(on, start_seconds,
                            [&device, memory] { device.memory.free(memory, MemoryKind::device); });
  });
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  return Device::get().call([&](Device& device) {
    if ((flags & ~cudaHostAllocPortable) != 0) {
      throw Failure{cudaErrorInvalidValue, "flags that are not emulated"};
    }
    *memory = allocate(device, bytes, MemoryKind::host);
  });
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  cudaDeviceSynchronize();
  return Device::get().release(
      [&](Device& device) { device.memory.free(memory, MemoryKind::host); });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return Device::get().call([&](Device& device) {
    *total = device.memory.capacity();
    *free = device.memory.capacity() - device.memory.used();
  });
}

cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
  return Device::get().call([&](Device& device) {
    if (bytes == 0) return;
    require_copy(device, to, from, bytes, kind);
    device.schedule.run_blocking_streams(Device::current());
    std::memmove(to, from, bytes);
  });
}

cudaError_t cudaMemcpyAsync(
    void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return Device::get().call([&](Device& device) {
    CUstream_st& on = device.schedule.stream(stream);
    if (bytes == 0) return;
    require_copy(device, to, from, bytes, kind);
    device.schedule.enqueue(on, seconds_of(bytes), [=] { std::memmove(to, from, bytes); });
  });
}

cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return Device::get().call([&](Device& device) {
    if (bytes == 0) return;
    require_destination(device, memory, bytes);
    device.schedule.run_blocking_streams(Device::current());
    std::memset(memory, value, bytes);
  });
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  return Device::get().call([&](Device& device) {
    CUstream_st& on = device.schedule.stream(stream);
    if (bytes == 0) return;
    require_destination(device, memory, bytes);
    device.schedule.enqueue(on, seconds_of(bytes), [=] { std::memset(memory, value, bytes); });
  });
}

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

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return Device::get().call([&](Device& device) {
    if ((flags & ~cudaStreamNonBlocking) != 0) throw Failure{cudaErrorInvalidValue, "stream flags"};
    *stream = device.schedule.create_stream(flags, Device::current());
  });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return Device::get().call([&](Device&) {
    *least = 0;
    *greatest = -5;  // as devices of compute capability 8.0 and 9.0 say
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return Device::get().release([&](Device& device) {
    device.schedule.stream(stream);
    device.schedule.destroy(stream);
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return Device::get().call([&](Device& device) {
    CUstream_st& waited = device.schedule.stream(stream);
    device.schedule.run_until([&] { return waited.work.empty(); });
    device.schedule.host_waited_until(waited.now);
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return Device::get().call([&](Device& device) {
    CUstream_st& asked = device.schedule.stream(stream);
    device.schedule.run_some();
    if (!asked.work.empty()) throw Failure{cudaErrorNotReady, "the stream has work left"};
    device.schedule.host_waited_until(asked.now);
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return Device::get().call([&](Device& device) {
    CUstream_st& waiting = device.schedule.stream(stream);
    CUevent_st const& awaited = device.schedule.event(event);
    if (flags != cudaEventWaitDefault) throw Failure{cudaErrorInvalidValue, "wait flags"};
    device.schedule.wait(waiting, awaited);
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return Device::get().call([&](Device& device) {
    if ((flags & ~(cudaEventBlockingSync | cudaEventDisableTiming)) != 0) {
      throw Failure{cudaErrorInvalidValue, "event flags"};
    }
    *event = device.schedule.create_event(flags);
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return Device::get().release([&](Device& device) { device.schedule.destroy(event); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return Device::get().call([&](Device& device) {
    CUstream_st& on = device.schedule.stream(stream);
    device.schedule.record(on, device.schedule.event(event));
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return Device::get().call([&](Device& device) {
    auto const record = device.schedule.event(event).last_record;
    if (record == nullptr) return;
    device.schedule.run_until([&] { return record->is_reached; });
    device.schedule.host_waited_until(record->seconds);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return Device::get().call([&](Device& device) {
    auto const record = device.schedule.event(event).last_record;
    if (record == nullptr) return;
    device.schedule.run_some();
    if (!record->is_reached) throw Failure{cudaErrorNotReady, "the event is not reached"};
    device.schedule.host_waited_until(record->seconds);
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return Device::get().call([&](Device& device) {
    CUevent_st const& first = device.schedule.event(start);
    CUevent_st const& last = device.schedule.event(end);
    if (((first.flags | last.flags) & cudaEventDisableTiming) != 0 ||
        first.last_record == nullptr || last.last_record == nullptr) {
      throw Failure{cudaErrorInvalidResourceHandle, "an event has no time, or was not recorded"};
    }
    if (!first.last_record->is_reached || !last.last_record->is_reached) {
      throw Failure{cudaErrorNotReady, "an event is not reached"};
    }
    *milliseconds =
        static_cast<float>((last.last_record->seconds - first.last_record->seconds) * 1e3);
  });
}
