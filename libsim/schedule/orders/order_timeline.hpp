#pragma once

#include "libsim/schedule/orders/chunk_costs.hpp"
#include "libsim/schedule/orders/pipeline_order.hpp"
#include "libsim/schedule/orders/played_order.hpp"

namespace stagecraft {

/// Plays an order with costs in place of programs, and with buffered messages: a stage starts a
/// task once it has ended the task before and the inputs of the task have arrived.
///
/// A forward needs the forward of the virtual stage before. A whole backward or an input gradient
/// needs that of the virtual stage after or, at the end of the model, its own forward. An input
/// arrives `costs.transfer` after it is made, or at once from the same stage. The outputs of a pair
/// are made when the pair ends.
/// \throws ScheduleError  if check_order() or check_costs() does, or if the stages wait for each
/// other in a circle; the message then says who waits for what.
PlayedOrder play_order(PipelineOrder const& order, ChunkCosts const& costs);

}  // namespace stagecraft
