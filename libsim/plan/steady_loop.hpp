#pragma once

#include "libsim/plan/pipeline_schedule.hpp"

namespace stagecraft {

/// The steady-state loop of a schedule, which is laid out once and repeated.
///
/// In the steady phase every stage runs one forward and one backward in turn, and what it runs
/// repeats after G microbatches (the group; 1 without interleaving): the k-th forward of a stage
/// depends on the microbatches only through k, and whole groups are alike. So the schedule of n
/// microbatches is that of n - (laps - 1) G with, on every stage, one stretch of G m forwards and
/// backwards (a lap) run `laps` times, up to the numbers of the microbatches. Each stage's lap
/// begins just before a forward, when the stage has run backwards_before() backwards.
struct SteadyLoop {
  ScheduleShape shape;    ///< with as many microbatches as warm-up, one lap and cool-down need
  int laps = 1;           ///< how often the lap runs in an iteration
  int lap_backwards = 0;  ///< backwards in a lap, G m; 0: no loop was found, `shape` is the whole

  bool has_loop() const { return lap_backwards > 0; }
  /// By how much the microbatches advance from one lap to the next. Pre: has_loop().
  int microbatches() const { return lap_backwards / shape.chunks; }
  int backwards_before(int stage) const;
};

/// The loop of a schedule; without one if the steady phase has too few laps to leave any out (GPipe
/// has no steady phase at all). Pre: the shape is legal, its group filled in.
SteadyLoop find_loop(ScheduleShape const& shape);

}  // namespace stagecraft
