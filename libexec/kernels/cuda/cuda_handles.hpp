#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>

#include "libexec/kernels/cuda/cuda_check.hpp"

/// Owners of CUDA runtime objects.
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

/// Allocates memory of the calling thread's device. \throws DeviceError
inline CudaMemory make_cuda_memory(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return CudaMemory{memory};
}

/// Makes a stream that does not synchronize with the legacy default stream. `priority` is that of
/// cudaStreamCreateWithPriority().
/// \throws DeviceError
inline CudaStream make_stream(int priority) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority),
        "cudaStreamCreateWithPriority");
  return CudaStream{stream};
}

/// Priorities for make_stream(); smaller numbers are higher priorities.
struct StreamPriorities {
  int lowest = 0;
  int highest = 0;
};
/// The priorities of the calling thread's device. \throws DeviceError
inline StreamPriorities stream_priorities() {
  StreamPriorities range;
  check(cudaDeviceGetStreamPriorityRange(&range.lowest, &range.highest),
        "cudaDeviceGetStreamPriorityRange");
  return range;
}

/// Makes an event that records its time. \throws DeviceError
inline CudaEvent make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return CudaEvent{event};
}

/// Makes a pool of device memory that is released in stream order and kept for later allocations.
/// \throws DeviceError
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
