#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>

#include "libexec/kernels/cuda/cuda_check.hpp"

/// Owners of what the CUDA runtime hands out.
namespace stagecraft {

struct DestroyStream {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
struct FreeDevice {
  void operator()(void* memory) const { cudaFree(memory); }
};
struct DestroyPool {
  void operator()(cudaMemPool_t pool) const { cudaMemPoolDestroy(pool); }
};

using CudaStream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;
using CudaEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;
using CudaMemory = std::unique_ptr<void, FreeDevice>;
using CudaPool = std::unique_ptr<std::remove_pointer_t<cudaMemPool_t>, DestroyPool>;

/// Of the calling thread's device. \throws DeviceError
inline CudaMemory make_cuda_memory(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return CudaMemory{memory};
}

/// A stream that does not meet the legacy default stream; `priority` as of cudaStreamCreate*.
/// \throws DeviceError
inline CudaStream make_stream(int priority) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority),
        "cudaStreamCreateWithPriority");
  return CudaStream{stream};
}

/// As make_stream() takes them: numbers that grow downwards.
struct StreamPriorities {
  int lowest = 0;
  int highest = 0;
};
/// Of the calling thread's device. \throws DeviceError
inline StreamPriorities stream_priorities() {
  StreamPriorities range;
  check(cudaDeviceGetStreamPriorityRange(&range.lowest, &range.highest),
        "cudaDeviceGetStreamPriorityRange");
  return range;
}

/// An event that knows when it was reached. \throws DeviceError
inline CudaEvent make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return CudaEvent{event};
}

/// Memory of a device that is given back in the order of a stream, and kept for what is allocated
/// next. \throws DeviceError
inline CudaPool make_keeping_pool(int device) {
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

}  // namespace stagecraft
