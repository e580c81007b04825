#include "tests/libexec/cuda_emulation/device_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "tests/libexec/cuda_emulation/failure.hpp"

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

}  // namespace stagecraft::emulation
