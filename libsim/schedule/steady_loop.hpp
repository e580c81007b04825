#pragma once

#include "libsim/schedule/schedule_shape.hpp"

namespace stagecraft {

/// The steady-state loop of a schedule, which is laid out once and repeated.
///
/// In the steady phase every stage alternates between one forward and one backward. The pattern
/// repeats after G microbatches (the group; 1 without interleaving), because the microbatch of a
/// stage's k-th forward depends only on k and all whole groups are alike. So, up to the numbers of
/// the microbatches, the schedule of n microbatches is the schedule of n - (times - 1) G in which
/// every stage runs its loop, a sequence of G m forwards and backwards, `times` times. A stage's
/// loop begins just before a forward, after backwards_before() backwards.
struct SteadyLoop {
  ScheduleShape shape;  ///< with the microbatches that warm-up, loop and cool-down need
  int times = 1;        ///< how often the loop runs in an iteration
  int backwards = 0;    ///< backwards per run of the loop, G m; 0: no loop, `shape` is complete

  bool has_loop() const { return backwards > 0; }
  /// The number by which microbatches advance from one run of the loop to the next. Pre:
  /// has_loop().
  int microbatches() const { return backwards / shape.chunks; }
  int backwards_before(StageId stage) const;
};

/// The loop of a schedule. There is none if the steady phase is too short to leave anything out
/// (GPipe has no steady phase at all). Pre: the shape is legal, its group filled in.
SteadyLoop find_loop(ScheduleShape const& shape);

}  // namespace stagecraft
