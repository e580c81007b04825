#include "tests/libexec/cuda_emulation/device.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>

#include "tests/libexec/cuda_emulation/emulation.hpp"
#include "tests/libexec/cuda_emulation/schedule.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define STAGECRAFT_FORBID(memory, bytes) __asan_poison_memory_region(memory, bytes)
#define STAGECRAFT_ALLOW(memory, bytes) __asan_unpoison_memory_region(memory, bytes)
#else
#define STAGECRAFT_FORBID(memory, bytes)
#define STAGECRAFT_ALLOW(memory, bytes)
#endif

namespace stagecraft::emulation {
namespace {

constexpr std::size_t guard = DeviceMemory::alignment;
constexpr auto guard_byte = std::byte{0xA5};

bool intact(std::byte const* memory) {
  return std::all_of(memory, memory + guard, [](std::byte byte) { return byte == guard_byte; });
}

}  // namespace

void* DeviceMemory::allocate(std::size_t bytes, MemoryKind kind) {
  bool const on_device = kind == MemoryKind::device;
  if (on_device && bytes > capacity_ - used_) return nullptr;
  std::size_t const padded = (bytes + alignment - 1) / alignment * alignment;
  auto* const base = static_cast<std::byte*>(std::aligned_alloc(alignment, padded + 2 * guard));
  if (base == nullptr) return nullptr;
  std::byte* const memory = base + guard;
  std::memset(base, static_cast<int>(guard_byte), guard);
  std::memset(memory, fresh_byte, bytes);
  std::memset(memory + bytes, static_cast<int>(guard_byte), guard);
  STAGECRAFT_FORBID(base, guard);
  STAGECRAFT_FORBID(memory + bytes, guard);
  allocations_.emplace(memory, Allocation{bytes, kind});
  if (on_device) used_ += bytes;
  return memory;
}

void DeviceMemory::free(void* memory, MemoryKind kind) {
  auto* const begin = static_cast<std::byte*>(memory);
  auto const found = allocations_.find(begin);
  if (found == allocations_.end() || found->second.kind != kind) {
    throw Failure{cudaErrorInvalidValue, "what is freed was not allocated, or in another way"};
  }
  std::size_t const bytes = found->second.bytes;
  allocations_.erase(found);
  if (kind == MemoryKind::device) used_ -= bytes;
  STAGECRAFT_ALLOW(begin - guard, guard);
  STAGECRAFT_ALLOW(begin + bytes, guard);
  bool const is_intact = intact(begin - guard) && intact(begin + bytes);
  std::free(begin - guard);
  if (!is_intact) {
    // As loud as AddressSanitizer: what frees is often a destructor, which ignores errors.
    std::cerr << "CUDA emulation: something was written next to an allocation of " << bytes
              << " bytes\n";
    std::abort();
  }
}

DeviceMemory::Allocations::const_iterator DeviceMemory::find(void const* memory,
                                                             std::size_t bytes) const {
  auto const* const begin = static_cast<std::byte const*>(memory);
  auto after = allocations_.upper_bound(begin);
  if (after == allocations_.begin()) return allocations_.end();
  --after;
  auto const offset = static_cast<std::size_t>(begin - after->first);
  bool const is_inside = offset <= after->second.bytes && bytes <= after->second.bytes - offset;
  return is_inside ? after : allocations_.end();
}

bool DeviceMemory::contains(void const* memory, std::size_t bytes) const {
  return find(memory, bytes) != allocations_.end();
}

bool DeviceMemory::contains(void const* memory, std::size_t bytes, MemoryKind kind) const {
  auto const found = find(memory, bytes);
  return found != allocations_.end() && found->second.kind == kind;
}

namespace {

constexpr std::uint64_t default_seed = 1;
constexpr int processors = 4;

std::uint64_t from_environment(char const* name, std::uint64_t otherwise) {
  char const* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local cudaError_t explained_error = cudaSuccess;
thread_local std::string explanation;

struct ErrorText {
  cudaError_t error;
  char const* name;
  char const* text;
};
constexpr ErrorText error_texts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
};

ErrorText const& text_of(cudaError_t error) {
  return *std::find_if(std::begin(error_texts), std::end(error_texts),
                       [&](ErrorText const& entry) { return entry.error == error; });
}

void require_device(Device const& device, int number) {
  if (number < 0 || number >= device.count) {
    throw Failure{cudaErrorInvalidDevice,
                  "device " + std::to_string(number) + " of " + std::to_string(device.count)};
  }
}

}  // namespace

Device::Device()
    : count{static_cast<int>(from_environment("STAGECRAFT_EMULATED_DEVICES", 1))},
      order{from_environment("STAGECRAFT_EMULATION_SEED", default_seed)} {}

Device& Device::get() {
  static Device device;
  return device;
}

int Device::current() { return current_device; }

void Device::pause() {
  constexpr std::chrono::microseconds moment{50};
  mutex_.unlock();
  std::this_thread::sleep_for(moment);
  mutex_.lock();
  if (broken) throw Failure{*broken};
}

cudaError_t Device::remember(Failure const& failure) {
  explained_error = failure.code();
  explanation = std::string{text_of(failure.code()).text} + ": " + failure.what();
  // No error, says NVIDIA.
  if (failure.code() != cudaErrorNotReady) last_error = failure.code();
  return failure.code();
}

void set_seed(std::uint64_t seed) {
  Device::get().configure([&](Device& device) { device.order = RandomOrder{seed}; });
}

void set_device_count(int count) {
  Device::get().configure([&](Device& device) { device.count = count; });
}

void set_memory_capacity(std::size_t bytes) {
  Device::get().configure([&](Device& device) { device.memory.set_capacity(bytes); });
}

std::size_t memory_in_use() {
  return Device::get().configure([](Device& device) { return device.memory.used(); });
}

void repair() {
  last_error = cudaSuccess;
  Device::get().configure([](Device& device) { device.broken.reset(); });
}

}  // namespace stagecraft::emulation

using stagecraft::emulation::Device;
using stagecraft::emulation::Failure;

cudaError_t cudaGetDeviceCount(int* count) {
  return Device::get().call([&](Device& device) { *count = device.count; });
}

cudaError_t cudaGetDevice(int* device) {
  return Device::get().call([&](Device&) { *device = stagecraft::emulation::current_device; });
}

cudaError_t cudaSetDevice(int device) {
  return Device::get().call([&](Device& all) {
    stagecraft::emulation::require_device(all, device);
    stagecraft::emulation::current_device = device;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  using namespace stagecraft::emulation;
  return Device::get().call([&](Device& all) {
    require_device(all, device);
    *properties = {"CUDA emulation", all.memory.capacity(), 9, 0, processors, 0, device + 1, 0};
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  // A machine without a driver has version 0 of it.
  *version =
      Device::get().configure([](Device& device) { return device.count; }) > 0 ? CUDART_VERSION : 0;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

char const* cudaGetErrorName(cudaError_t error) {
  return stagecraft::emulation::text_of(error).name;
}

char const* cudaGetErrorString(cudaError_t error) {
  using namespace stagecraft::emulation;
  bool const is_explained = error != cudaSuccess && error == explained_error;
  return is_explained ? explanation.c_str() : text_of(error).text;
}

cudaError_t cudaGetLastError() {
  return std::exchange(stagecraft::emulation::last_error, cudaSuccess);
}

cudaError_t cudaPeekAtLastError() { return stagecraft::emulation::last_error; }

std::size_t cublasLtGetVersion() { return 130100; }
