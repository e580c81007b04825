#pragma once

#include <cstdint>

#include "libsim/units/ids.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// An entry of a stage's issue order (unroll()) that runs a task.
struct RanEntry {
  std::int32_t entry = 0;
  std::int32_t task = 0;
  MicrobatchId microbatch{};  ///< no_microbatch: the optimizer step
};

/// Hears what happens on each stage, in order of time on each stage and in no particular order
/// across stages: all ranks of a stage do the same. This one does nothing; another has the same
/// members. One that does not hear lets the player leave out what repeats.
struct SilentObserver {
  static constexpr bool hears = true;
  void ran(StageId /*stage*/, RanEntry const& /*what*/, SimTime /*start*/, SimTime /*end*/) {}
  /// A task that starts shares links with the stage's data-parallel stream: what that stream does
  /// after `from` happens later than was told before (delayed_by_sharing). Told before the task.
  void shared_links(StageId /*stage*/, SimTime /*from*/, SimTime /*beside*/, SimTime /*delay*/) {}
  /// The stage's compute stream stood still at an entry of its issue order (a wait, a drain or a
  /// group task).
  void waited(StageId /*stage*/, std::int32_t /*entry*/, SimTime /*start*/, SimTime /*end*/) {}
  /// A message went from start to arrival. Told once per message, with one of its ends: a transfer
  /// of the stage's issue order.
  void transferred(StageId /*stage*/,
                   std::int32_t /*transfer*/,
                   SimTime /*start*/,
                   SimTime /*end*/) {}
};

/// Hears nothing.
struct NoObserver : SilentObserver {
  static constexpr bool hears = false;
};

}  // namespace stagecraft
