#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libexec/backends/backend.hpp"

namespace stagecraft {

/// The sizes with which a device is measured, similar to those of the models it is used for.
struct MeasurementScale {
  /// The extents of the products on each axis.
  std::vector<std::int64_t> extents;
  /// The extents of products in batches, and the size of a batch; empty if a batch is not faster
  /// than its products one by one.
  std::vector<std::int64_t> batched_extents;
  std::int64_t batch = 1;
  /// The size of the memory whose parts are operands in turn, larger than the device's caches.
  std::size_t operand_bytes = 0;
  /// The models whose kernels are measured.
  struct Model {
    std::int64_t hidden, heads, sequence, micro;
  };
  std::vector<Model> models;
  /// Whether flash attention is measured by its bytes like other kernels, which is valid only for
  /// small models, or by its arithmetic.
  bool flash_by_bytes = true;
};

/// Sizes that fit the caches and cores of a CPU, or that fill a GPU.
MeasurementScale measurement_scale(DeviceKind device);

}  // namespace stagecraft
