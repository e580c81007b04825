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

/// Is told what happens on each stage, which stands for all its ranks: in order of time on each
/// stage and in no particular order across stages. This observer does nothing; others have the same
/// members. If an observer does not hear, the player may leave out what repeats.
struct SilentObserver {
  static constexpr bool hears = true;
  void ran(StageId /*stage*/, RanEntry const& /*what*/, SimTime /*start*/, SimTime /*end*/) {}
  /// A task that starts shares links with the stage's data-parallel stream. Events of that stream
  /// after `from` are later than was told before (delayed_by_sharing). Told before the task.
  void shared_links(StageId /*stage*/, SimTime /*from*/, SimTime /*beside*/, SimTime /*delay*/) {}
  /// The stage's compute stream stood still at an entry of its issue order: a wait, a drain or a
  /// group task.
  void waited(StageId /*stage*/, std::int32_t /*entry*/, SimTime /*start*/, SimTime /*end*/) {}
  /// A message went from start to arrival. Told once per message, with one of its ends as a
  /// transfer of the stage's issue order.
  void transferred(StageId /*stage*/,
                   std::int32_t /*transfer*/,
                   SimTime /*start*/,
                   SimTime /*end*/) {}
};

/// An observer that does not hear.
struct NoObserver : SilentObserver {
  static constexpr bool hears = false;
};

}  // namespace stagecraft
