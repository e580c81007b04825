#pragma once

#include <cstdint>

#include "libsim/units/units.hpp"

namespace stagecraft {

/// An entry of a stage's issue order (unroll()) that runs a task.
struct RanEntry {
  std::int32_t entry = 0;
  std::int32_t task = 0;
  std::int32_t microbatch = 0;
};

/// Hears what happens on each rank, in order of time on each rank and in no particular order across
/// ranks. This one does nothing; another has the same members. One that does not hear lets the
/// player leave out what repeats.
struct SilentObserver {
  static constexpr bool hears = true;
  void ran(int /*rank*/, RanEntry const& /*what*/, SimTime /*start*/, SimTime /*end*/) {}
  /// The rank's compute stream stood still at an entry of its issue order (a wait, a drain or a
  /// group task).
  void waited(int /*rank*/, std::int32_t /*entry*/, SimTime /*start*/, SimTime /*end*/) {}
  /// A message went from start to arrival. Told once per message, with one of its ends: a transfer
  /// of the rank's issue order.
  void transferred(int /*rank*/, std::int32_t /*transfer*/, SimTime /*start*/, SimTime /*end*/) {}
};

/// Hears nothing.
struct NoObserver : SilentObserver {
  static constexpr bool hears = false;
};

}  // namespace stagecraft
