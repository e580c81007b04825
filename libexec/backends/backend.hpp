#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "libexec/backends/device_timeline.hpp"
#include "libexec/kernels/kernel_call.hpp"
#include "libexec/kernels/optimizer_kernels.hpp"
#include "libexec/memory/counting_allocator.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

class CudaStreams;

enum class DeviceKind : std::uint8_t { cpu, cuda };

/// What a device itself says of its memory, beside the bytes that are counted.
struct DeviceMemoryUse {
  Bytes before;     ///< in use before the rank took any: contexts, other ranks and programs
  Bytes pool_peak;  ///< most that the pool of its tensors took, in granules and with gaps
  Bytes after;      ///< in use when it was asked, by whoever
};

/// Memory and kernels of one rank's device. Used by the rank's thread only; kernels run on the
/// compute stream, in issue order, and may run behind the host.
class Backend : public DeviceMemory {
 public:
  virtual void run(KernelCall const& call) = 0;

  /// Whether run() of a product with a bias as third operand is faster here than the product and
  /// the bias_add behind it, and is to take the place of both. May measure, at the first call for a
  /// shape; a later call for the same shape has the same answer.
  virtual bool adds_bias(KernelCall const& /*product*/) { return false; }

  // What happens once an iteration, on flat ranges.
  virtual void zero(FlatRange const& range) = 0;
  virtual void scale(FlatRange const& range, double factor) = 0;
  /// Scales, and says whether an element is infinite or no number.
  virtual bool unscale(FlatRange const& range, double factor) = 0;
  /// In double, in an order that depends on nothing but the number of elements.
  virtual double sum_of_squares(FlatRange const& range) = 0;
  /// `master`: fp32 copies of 16-bit parameters, or the parameters themselves.
  virtual void adam(AdamUpdate const& update,
                    FlatRange const& master,
                    FlatRange const& first_moment,
                    FlatRange const& second_moment,
                    FlatRange const& gradient) = 0;
  virtual void narrow(FlatRange const& from, FlatRange const& to) = 0;

  /// Within the device, on the compute stream. The two may not overlap.
  virtual void copy(void* target, void const* source, std::size_t bytes) = 0;

  // Between host and device; wait for the compute stream.
  virtual void write(void* device, void const* host, std::size_t bytes) = 0;
  virtual void read(void* host, void const* device, std::size_t bytes) = 0;

  /// Scratch memory that the kernels of a rank use at most: the category `workspace`.
  virtual Bytes workspace() const = 0;

  /// Absent where a device does not say. Waits for nothing.
  virtual std::optional<DeviceMemoryUse> memory_use() const { return std::nullopt; }

  /// Where kernels run behind the host: when they ran. Null where they are over when their call
  /// returns.
  virtual DeviceTimeline* timeline() { return nullptr; }
  /// What communicators between CUDA devices work with; null on other devices.
  virtual CudaStreams* cuda_streams() { return nullptr; }
};

}  // namespace stagecraft
