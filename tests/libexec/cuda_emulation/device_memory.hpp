#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <vector>

namespace stagecraft::emulation {

enum class MemoryKind { device, host };

/// What was allocated: real memory, filled with bytes of 0xFF (NaN in every floating-point type),
/// between guards that are looked at when it is freed. AddressSanitizer finds accesses to guards
/// when they happen, LeakSanitizer what is never freed.
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

  /// The allocation that an address is in; empty where there is none.
  std::span<std::byte> allocation_at(void const* memory) const;
  std::vector<std::span<std::byte>> allocations() const;

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
