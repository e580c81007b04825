#pragma once

#include "libsim/schedule/memory_changes.hpp"
#include "libsim/schedule/placement.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Costs of split backwards in whole ticks.
struct SplitTicks {
  SimTime forward{0};
  SimTime input_gradient{0};
  SimTime weight_gradient{0};
  SimTime transfer{0};
};

/// A makespan that no order of split backwards undercuts, on a placement of one copy of the model.
///
/// The largest over all ranks of two bounds. Time: a rank waits for its first input, and for its
/// first gradient longer than the forwards that fit into its memory last; then it runs all forwards
/// and gradients; and behind its last gradient all weight gradients, or what the ranks before it
/// still have to do. Memory: each forward holds its memory at least while its microbatch goes to
/// the end of the model and back. `memory_limit` is in the unit of `memory`. Pre: a forward changes
/// memory by more than 0.
SimTime makespan_bound(Placement const& placement,
                       int microbatches,
                       SplitTicks const& costs,
                       MemoryChanges const& memory,
                       double memory_limit);

}  // namespace stagecraft
