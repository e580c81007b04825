#include "libsim/schedule/steady_loop.hpp"

#include "libsim/schedule/schedule_rules.hpp"
#include "libsim/schedule/stage_order.hpp"

namespace stagecraft {

/// The stages' orders alone would allow the loop to begin anywhere. It begins here so that, with
/// blocking exchanges, no message crosses the beginning: the joint call of interleaved 1F1B after a
/// stage's k-th steady pair matches the next stage's call after pair k + 1; in 1F1B, calls of the
/// same k match.
int SteadyLoop::backwards_before(StageId stage) const {
  return rules_of(shape.kind).takes_chunks ? stage.value() + 1 : 1;
}

SteadyLoop find_loop(ScheduleShape const& shape) {
  SteadyLoop whole{.shape = shape};
  if (!rules_of(shape.kind).alternates) return whole;
  int const group = rules_of(shape.kind).takes_chunks ? shape.group : 1;
  int const length = group * shape.chunks;
  // The loop and the computation after it must lie in whole groups. The last forward they contain
  // is number warmup + backwards_before + length + 1, which does not grow with the stage.
  StageId const first{0};
  int const needed = warmup_forwards(shape, first) + whole.backwards_before(first) + length + 1;
  int const groups = (needed + length - 1) / length;
  int const all_groups = shape.microbatches / group;
  if (groups >= all_groups) return whole;
  SteadyLoop loop{.shape = shape, .times = all_groups - groups + 1, .backwards = length};
  loop.shape.microbatches -= (all_groups - groups) * group;
  return loop;
}

}  // namespace stagecraft
