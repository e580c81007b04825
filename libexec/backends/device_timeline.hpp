#pragma once

#include <cstdint>

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

}  // namespace stagecraft
