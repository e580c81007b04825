#pragma once

#include <vector>

#include "libsim/schedule/stage_order.hpp"
#include "libsim/schedule/stage_writer.hpp"

namespace stagecraft {

/// Appends GPipe or 1F1B with blocking exchanges. Warm-up: receive, forward, send. Steady phase:
/// one exchange sends the forward's output and receives the gradient, another sends the backward's
/// output and receives the next input. Cool-down: receive, backward, send. GPipe has warm-up and
/// cool-down only.
/// Pre: one chunk.
/// Source: Megatron-LM schedules.py, forward_backward_pipelining_without_interleaving.
void append_blocking_entries(StageWriter& writer, VirtualOrder const& order, int warmup);

/// Appends interleaved 1F1B with blocking exchanges. In the steady phase, one joint call after each
/// forward and backward moves all four messages. At its forward k, stage 0 receives the output of
/// stage p-1's forward k-(p-1), before it needs it; stage p-1 receives gradients in the same way.
/// Source: Megatron-LM schedules.py, forward_backward_pipelining_with_interleaving, no overlap.
void append_interleaved_blocking_entries(StageWriter& writer,
                                         VirtualOrder const& order,
                                         ScheduleShape const& shape,
                                         StageId stage);

/// Appends any schedule with overlapped transfers. After each computation one post sends its output
/// and opens the receive for the computation after the next; before each computation one wait
/// completes the post of one computation earlier. So a receive is open for one computation before
/// its consumer, and a send is waited for (and its buffer released) one computation after its
/// producer.
///
/// Sends must be buffered: a send may be waited for before the other end has opened its receive.
/// Pre: `runs` is not empty.
void append_overlapped_entries(StageWriter& writer, std::vector<ChunkRun> const& runs);

/// The same for the tasks of an order. A pair counts as one computation: its inputs are waited for
/// before it, and both its outputs are sent after it. Pre: `tasks` is not empty.
void append_ordered_entries(StageWriter& writer, std::vector<OrderTask> const& tasks);

}  // namespace stagecraft
