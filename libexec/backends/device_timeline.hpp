#pragma once

#include <cstdint>

#include "libsim/units/units.hpp"

namespace stagecraft {

/// When work of a rank ran on a device that works behind its host: places in its streams are marked
/// as work is issued, and asked for their times once it is over.
///
/// Used by the rank's thread only.
class DeviceTimeline {
 public:
  using Mark = std::int64_t;

  virtual ~DeviceTimeline() = default;

  /// Waits until all streams are idle, forgets the marks, and counts time from now on. Marks that
  /// nobody will ask for cost nothing: without `keeps_marks`, all of them are time 0.
  virtual void restart(bool keeps_marks) = 0;
  /// The place in the compute stream that was issued last.
  virtual Mark mark() = 0;
  /// Waits until all streams are idle.
  virtual void synchronize() = 0;
  /// Since the restart. Pre: synchronized since the mark was made.
  virtual SimTime time_of(Mark mark) const = 0;
};

}  // namespace stagecraft
