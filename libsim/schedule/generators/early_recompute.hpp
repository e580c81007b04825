#pragma once

#include <vector>

#include "libsim/schedule/orders/pipeline_order.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// What a chunk of a virtual stage takes for one microbatch.
struct RecomputeTimes {
  SimTime forward{0};
  SimTime backward{0};        ///< whole, recompute included
  SimTime input_gradient{0};  ///< recompute included
  SimTime weight_gradient{0};
  SimTime recompute{0};  ///< 0: the chunk is not recomputed
  SimTime transfer{0};   ///< of a message to the next virtual stage, or from there
};

/// The order with a task of its own for recompute where a stage would otherwise wait.
///
/// The order is played with the times. Where a stage waits for a gradient, it recomputes for that
/// gradient meanwhile. In any other wait it recomputes for its next backward, if that fits into the
/// wait wholly. So no task starts later than without, and at most one chunk of a stage is
/// recomputed before its backward could start. Everywhere else recompute stays part of the
/// backward. `stored`: by virtual stage and microbatch, those that keep everything and are not
/// recomputed; empty: none.
/// Pre: the order is legal and has no task for recompute; `times` has each virtual stage.
PipelineOrder with_early_recompute(PipelineOrder const& order,
                                   std::vector<RecomputeTimes> const& times,
                                   std::vector<bool> stored = {});

}  // namespace stagecraft
