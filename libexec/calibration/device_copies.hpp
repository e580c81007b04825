#pragma once

#include <cstddef>
#include <functional>

#include "libexec/backends/backend.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// The seconds that a device takes for what `issue` queues. Pre: the backend has a timeline.
double queued_seconds(Backend& backend, std::function<void()> const& issue);

/// Copies within the memory of a device, larger than its caches: what other kernels do between two
/// products of a model. Pre: the backend has a timeline.
class DeviceCopies {
 public:
  explicit DeviceCopies(Backend& backend);
  ~DeviceCopies();
  DeviceCopies(DeviceCopies const&) = delete;
  DeviceCopies(DeviceCopies&&) = delete;
  DeviceCopies& operator=(DeviceCopies const&) = delete;
  DeviceCopies& operator=(DeviceCopies&&) = delete;

  void run(int count);
  /// How many take about `seconds`; none if a single one takes longer.
  int count_in(double seconds) const { return static_cast<int>(seconds / seconds_each_); }
  /// Bytes read and written.
  BytesPerSecond bandwidth() const;

 private:
  static constexpr std::size_t bytes = std::size_t{128} << 20;
  Backend& backend_;
  void* from_;
  void* to_;
  double seconds_each_ = 0;
};

}  // namespace stagecraft
