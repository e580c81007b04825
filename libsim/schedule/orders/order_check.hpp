#pragma once

#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// Holds each stage's tasks against what the microbatches need there, without regard to time.
///
/// A stage runs, of every microbatch that passes through a chunk of it, one forward, then either
/// one whole backward or one input gradient and, later, one weight gradient; between the forward
/// and the gradient at most one recompute. Whether the stages then wait for each other in a circle
/// is play_order()'s to find.
/// \throws ScheduleError  for the first task that is missing, that comes twice or too early, or
///         that no chunk has; it names the stage and the task.
void check_order(PipelineOrder const& order);

}  // namespace stagecraft
