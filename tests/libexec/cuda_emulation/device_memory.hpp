#pragma once

#include <cstddef>
#include <functional>
#include <map>

namespace stagecraft::emulation {

constexpr int fresh_byte = 0xFF;  ///< NaN in every floating-point type

enum class MemoryKind { device, host };

/// What was allocated: real memory, filled with fresh_byte, between guards that are looked at when
/// it is freed. AddressSanitizer finds accesses to guards when they happen, LeakSanitizer what is
/// never freed.
class DeviceMemory {
 public:
  static constexpr std::size_t alignment = 256;  ///< as cudaMalloc's

  /// Null where it does not fit.
  void* allocate(std::size_t bytes, MemoryKind kind);
  /// Ends the program if a guard was written.
  /// \throws Failure  if it is not the begin of an allocation of that kind.
  void free(void* memory, MemoryKind kind);
  /// Whether the range lies in one allocation. The end of an allocation holds ranges of no bytes.
  bool contains(void const* memory, std::size_t bytes) const;
  bool contains(void const* memory, std::size_t bytes, MemoryKind kind) const;

  void set_capacity(std::size_t bytes) { capacity_ = bytes; }
  std::size_t capacity() const { return capacity_; }
  std::size_t used() const { return used_; }

 private:
  struct Allocation {
    std::size_t bytes;
    MemoryKind kind;
  };
  using Allocations = std::map<std::byte*, Allocation, std::less<>>;

  Allocations::const_iterator find(void const* memory, std::size_t bytes) const;

  Allocations allocations_;
  std::size_t capacity_ = std::size_t{16} << 30U;
  std::size_t used_ = 0;  ///< on the device
};

}  // namespace stagecraft::emulation
