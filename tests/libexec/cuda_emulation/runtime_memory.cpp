// Memory: what the runtime's functions that allocate, free, copy and set check, and what they
// enqueue.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "tests/libexec/cuda_emulation/device.hpp"
#include "tests/libexec/cuda_emulation/schedule.hpp"

/// Keeps nothing: what is freed is given back at once.
struct CUmemPoolHandle_st {
  std::size_t bytes = 0;  ///< allocated from it and not yet freed, as issued
  std::size_t most = 0;
};

namespace stagecraft::emulation {
namespace {

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

}  // namespace
}  // namespace stagecraft::emulation

using namespace stagecraft::emulation;

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
    if (bytes == 0) return;
    // Until then its bytes may be another's, so that what is written earlier is lost.
    device.schedule.enqueue(on, start_seconds, [&device, begin = *memory, bytes] {
      if (device.memory.contains(begin, bytes)) std::memset(begin, fresh_byte, bytes);
    });
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
