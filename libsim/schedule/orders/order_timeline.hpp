#pragma once

#include "libsim/schedule/orders/chunk_costs.hpp"
#include "libsim/schedule/orders/pipeline_order.hpp"
#include "libsim/schedule/orders/played_order.hpp"

namespace stagecraft {

/// Plays an order with costs in place of programs and with buffered messages: a stage starts a task
/// once it has ended the one before and what the task needs has arrived.
///
/// A forward needs the forward of the virtual stage before; a whole backward or an input gradient
/// needs that of the virtual stage after, or at the end of the model its own forward. Between
/// stages either arrives `costs.transfer` after it is made, within a stage at once. A task of a
/// pair is made when the pair ends.
/// \throws ScheduleError  if check_order() or check_costs() does, or if the stages wait for each
///         other in a circle: then it says who waits for what.
PlayedOrder play_order(PipelineOrder const& order, ChunkCosts const& costs);

}  // namespace stagecraft
