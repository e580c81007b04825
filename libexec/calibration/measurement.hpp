#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "libexec/backends/backend.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// The value below which a share of the samples lies. Pre: at least one sample; 0 <= share <= 1.
inline double quantile(std::vector<double> samples, double share) {
  std::sort(samples.begin(), samples.end());
  auto const place = share * static_cast<double>(samples.size() - 1) + 0.5;
  return samples[static_cast<std::size_t>(place)];
}

inline double median(std::vector<double> const& samples) { return quantile(samples, 0.5); }

/// The distance from the first to the third quartile in percent of the median. Pre: that is not 0.
inline double spread_percent(std::vector<double> const& samples) {
  return 100 * (quantile(samples, 0.75) - quantile(samples, 0.25)) / median(samples);
}

/// Medians of repeated measurements, on a machine that may do something else beside them.
class SteadyMedians {
 public:
  /// The median of the samples that `take` gives, in seconds. If the samples lie far apart, takes
  /// them again, a few times at most, and keeps those that lie closest together.
  double of(std::function<std::vector<double>()> const& take);
  /// Says how many measurements stayed unsteady, if so many did that the machine was busy; empty
  /// otherwise.
  std::string busy_text() const;

 private:
  int measured_ = 0;
  int unsteady_ = 0;
};

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
    std::int64_t hidden = 0, heads = 0, sequence = 0, micro = 0;
  };
  std::vector<Model> models;
  /// The model whose layer a device runs between products.
  Model load{};
  /// Whether flash attention is measured by its bytes like other kernels, which is valid only for
  /// small models, or by its arithmetic.
  bool flash_by_bytes = true;
};

/// Sizes that fit the caches and cores of a CPU, or that fill a GPU.
MeasurementScale measurement_scale(DeviceKind device);

/// The seconds that a device takes for what `issue` queues. Pre: the backend has a timeline.
double queued_seconds(Backend& backend, std::function<void()> const& issue);

/// Copies within the memory of a device, larger than its caches. Pre: the backend has a timeline.
class DeviceCopies {
 public:
  explicit DeviceCopies(Backend& backend);
  ~DeviceCopies();
  DeviceCopies(DeviceCopies const&) = delete;
  DeviceCopies(DeviceCopies&&) = delete;
  DeviceCopies& operator=(DeviceCopies const&) = delete;
  DeviceCopies& operator=(DeviceCopies&&) = delete;

  /// Bytes read and written.
  BytesPerSecond bandwidth() const;

 private:
  void run(int count);

  static constexpr std::size_t bytes = std::size_t{128} << 20;
  Backend& backend_;
  void* from_;
  void* to_;
  double seconds_each_ = 0;
};

}  // namespace stagecraft
