#pragma once

#include <vector>

#include "libsim/plan/stage_order.hpp"
#include "libsim/plan/stage_writer.hpp"

namespace stagecraft {

/// GPipe and 1F1B with blocking exchanges. Warm-up: receive, forward, send; steady: the forward's
/// output goes out while the gradient comes in, then the backward's while the next input comes in;
/// cool-down: receive, backward, send. GPipe has warm-up and cool-down only.
/// Pre: one chunk.
/// Source: Megatron-LM schedules.py, forward_backward_pipelining_without_interleaving.
void append_blocking_steps(StageWriter& writer, VirtualOrder const& order, int warmup);

/// Interleaved 1F1B with blocking exchanges: in the steady phase one joint call after each forward
/// and backward moves all four messages. Stage 0 receives at its forward k what stage p-1 made at
/// its forward k-(p-1), earlier than it needs it; likewise stage p-1 for gradients.
/// Source: Megatron-LM schedules.py, forward_backward_pipelining_with_interleaving, no overlap.
void append_interleaved_blocking_steps(StageWriter& writer,
                                       VirtualOrder const& order,
                                       ScheduleShape const& shape,
                                       int stage);

/// Any schedule with overlapped transfers. After each computation one post sends its output and
/// opens the receive of the computation after the next; before each computation one wait takes the
/// post of one computation earlier. So a receive is open for one computation before its consumer,
/// and a send is waited for (its buffer released) one computation after its producer.
///
/// Sends must be buffered: a send may be waited for before the other end has opened its receive.
/// Pre: `runs` is not empty.
void append_overlapped_steps(StageWriter& writer, std::vector<ChunkRun> const& runs);

}  // namespace stagecraft
