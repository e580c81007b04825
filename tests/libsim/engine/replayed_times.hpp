#pragma once

#include <vector>

#include "libsim/cost/cost_model.hpp"
#include "libsim/program/op.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// When `duration` of computation that starts at `start` ends, if until `busy_until` it runs at
/// (1 - slowdown) of its speed. Rounded to the nearest picosecond. `slowdown` is in millionths.
SimTime slowed(SimTime start, SimTime duration, SimTime busy_until, int slowdown);

/// `amount` times `part / whole`, rounded to the nearest picosecond.
SimTime portion(SimTime amount, SimTime part, SimTime whole);

/// When the ops of a block run, from its begin.
struct ReplayedTimes {
  std::vector<SimTime> start, end;  ///< by op
  SimTime duration{0};
  SimTime on_links{0};  ///< of the duration, with collectives on the links of reductions
};

/// The times of ops as if the host were always ahead, and then, if it takes longer than that, with
/// what it is behind spread over the ops by what each costs it. \throws std::logic_error  if a
/// collective outlasts the block.
ReplayedTimes replayed_times(std::vector<Op> const& ops,
                             CostModel const& cost,
                             bool waits_for_host);

}  // namespace stagecraft
