#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libexec/backends/backend.hpp"

namespace stagecraft {

/// How large the work is that a device is measured by: like that of the models it is used for.
struct MeasurementScale {
  /// Of the products, on each axis.
  std::vector<std::int64_t> extents;
  /// Of products that come in batches, and how many a batch has; none where a batch is no faster
  /// than its products one by one.
  std::vector<std::int64_t> batched_extents;
  std::int64_t batch = 1;
  /// Of the memory that operands are taken from in turns: beyond the device's caches.
  std::size_t operand_bytes = 0;
  /// Of the models whose kernels are measured.
  struct Model {
    std::int64_t hidden, heads, sequence, micro;
  };
  std::vector<Model> models;
  /// Whether flash attention is measured like kernels whose time is that of their bytes, which
  /// holds for small models only; else by its arithmetic.
  bool flash_by_bytes = true;
};

/// What fits the caches and cores of a CPU, or fills a GPU.
MeasurementScale measurement_scale(DeviceKind device);

}  // namespace stagecraft
