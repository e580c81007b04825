#pragma once

#include <vector>

#include "libsim/schedule/orders/pipeline_order.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Durations of a virtual stage's chunk for one microbatch.
struct RecomputeTimes {
  SimTime forward{0};
  SimTime backward{0};        ///< whole, recompute included
  SimTime input_gradient{0};  ///< recompute included
  SimTime weight_gradient{0};
  SimTime recompute{0};  ///< 0: the chunk is not recomputed
  SimTime transfer{0};   ///< duration of a message to or from the next virtual stage
};

/// The order with a task of its own for recompute where a stage would otherwise wait.
///
/// The order is played with the times. If a stage waits for a gradient, it recomputes for that
/// gradient meanwhile. In any other wait it recomputes for its next backward, if the recompute fits
/// into the wait. So no task starts later than without it, and at most one chunk of a stage is
/// recomputed before its backward could start. All other recompute stays part of the backward.
/// `stored`: the passes that keep everything and are not recomputed, by virtual stage and
/// microbatch; empty: none.
/// Pre: the order is legal and has no task for recompute; `times` has each virtual stage.
PipelineOrder with_early_recompute(PipelineOrder const& order,
                                   std::vector<RecomputeTimes> const& times,
                                   std::vector<bool> stored = {});

}  // namespace stagecraft
