#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "tests/libexec/cuda_emulation/schedule.hpp"

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

/// All that the emulation knows, behind one lock: calls of all threads come one after another.
class Device {
 public:
  /// The process's.
  static Device& get();

  /// Runs the body of a runtime function: turns Failure into what the function returns, and that
  /// into the thread's last error. After a kernel's failure every call fails as it did, as on a
  /// device.
  template <typename Body>
  cudaError_t call(Body const& body) {
    return guard([&] {
      if (broken) throw Failure{*broken};
      body(*this);
    });
  }

  /// The same for what gives something back: a broken device lets go, too.
  template <typename Body>
  cudaError_t release(Body const& body) {
    return guard([&] {
      body(*this);
      if (broken) throw Failure{*broken};
    });
  }

  /// What changes settings waits for calls that are under way.
  template <typename Body>
  auto configure(Body const& body) {
    std::lock_guard const lock{mutex_};
    return body(*this);
  }

  /// Lets other threads call for a moment; only from within a call. Whoever waits for what is
  /// outside of the process does so between two looks.
  /// \throws Failure  where the device has failed meanwhile.
  void pause();
  /// That of the calling thread.
  static int current();

  int count;
  std::optional<Failure> broken;
  RandomOrder order;
  DeviceMemory memory;
  Schedule schedule{order, [this] { pause(); }};
  struct Pooled {
    cudaMemPool_t pool;
    std::size_t bytes;
  };
  std::unordered_map<void const*, Pooled> pooled;  ///< what was allocated from pools

 private:
  Device();
  template <typename Body>
  cudaError_t guard(Body const& body) {
    std::lock_guard const lock{mutex_};
    try {
      if (count < 1) throw Failure{cudaErrorInsufficientDriver, "no device is emulated"};
      try {
        body();
      } catch (KernelFailure const& failure) {
        broken.emplace(cudaErrorLaunchFailure, failure.what());
        schedule.abandon();
        throw Failure{*broken};
      }
      return cudaSuccess;
    } catch (Failure const& failure) {
      return remember(failure);
    }
  }

  static cudaError_t remember(Failure const& failure);

  std::mutex mutex_;
};

}  // namespace stagecraft::emulation
