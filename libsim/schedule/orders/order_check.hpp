#pragma once

#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// Checks each stage's tasks against the passes that microbatches need there, without regard to
/// time.
///
/// For every microbatch that passes through one of its chunks, a stage runs one forward, then
/// either one whole backward, or one input gradient and, later, one weight gradient. Between the
/// forward and the gradient it runs at most one recompute. play_order() finds whether the stages
/// then wait for each other in a circle.
/// \throws ScheduleError  for the first task that is missing, that comes twice or too early, or
///         that no chunk has; it names the stage and the task.
void check_order(PipelineOrder const& order);

}  // namespace stagecraft
