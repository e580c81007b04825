#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "libexec/kernels/kernel_call.hpp"
#include "libexec/memory/counting_allocator.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// The times of a rank's work on a device that runs asynchronously to its host. Places in its
/// streams are marked as work is issued; their times are read when the work is over.
///
/// Only the rank's thread uses it.
class DeviceTimeline {
 public:
  using Mark = std::int64_t;

  virtual ~DeviceTimeline() = default;

  /// Waits until all streams are idle, discards the marks, and restarts time at 0. Without
  /// `keeps_marks`, marks have no cost and all of them are time 0.
  virtual void restart(bool keeps_marks) = 0;
  /// Marks the end of the compute stream.
  virtual Mark mark() = 0;
  /// Waits until all streams are idle.
  virtual void synchronize() = 0;
  /// The time of a mark since the restart. Pre: synchronized since the mark was made.
  virtual SimTime time_of(Mark mark) const = 0;
};

enum class DeviceKind : std::uint8_t { cpu, cuda };

/// The memory use that a device itself reports, in addition to the bytes that are counted.
struct DeviceMemoryUse {
  Bytes before;     ///< in use before the rank allocated: contexts, other ranks and programs
  Bytes pool_peak;  ///< high-water mark of the tensors' pool, with rounding and gaps
  Bytes after;      ///< in use at the time of the call, by all programs
};

/// Memory and kernels of one rank's device. Only the rank's thread uses it. Kernels run on the
/// compute stream, in issue order, possibly asynchronously to the host.
///
/// This folder has one implementation per device: cpu_backend.hpp and cuda_backend.hpp. A build
/// without CUDA compiles cuda_absent.cpp instead, whose functions throw.
class Backend : public DeviceMemory {
 public:
  virtual void run(KernelCall const& call) = 0;

  /// Whether run() of a product with a bias as third operand is faster on this device than the
  /// product followed by bias_add, so that it replaces both. May measure at the first call for a
  /// shape; later calls for the same shape return the same answer.
  virtual bool adds_bias(KernelCall const& /*product*/) { return false; }

  /// Copies within the device, on the compute stream. The two must not overlap.
  virtual void copy(void* target, void const* source, std::size_t bytes) = 0;

  // Copies between host and device, which wait for the compute stream.
  virtual void write(void* device, void const* host, std::size_t bytes) = 0;
  virtual void read(void* host, void const* device, std::size_t bytes) = 0;

  /// The most scratch memory that the kernels of a rank use: the category `workspace`.
  virtual Bytes workspace() const = 0;

  /// Returns nullopt if the device does not report it. Does not wait.
  virtual std::optional<DeviceMemoryUse> memory_use() const { return std::nullopt; }

  /// The times of kernels that run asynchronously to the host. Null if kernels are over when their
  /// call returns.
  virtual DeviceTimeline* timeline() { return nullptr; }
};

/// Fills a range of the device's memory with zeros, on the compute stream.
inline void fill_zero(Backend& backend, FlatRange const& range) {
  KernelCall call;
  call.kind = OpKind::zero_gradients;
  call.name = {"fill_zero", ""};
  call.writes.push_back(range.operand());
  backend.run(call);
}

}  // namespace stagecraft
