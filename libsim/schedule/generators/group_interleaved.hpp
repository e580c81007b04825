#pragma once

#include "libsim/schedule/orders/chunk_costs.hpp"
#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// Interleaved 1F1B with split backwards in small groups: fewer microbatches in flight than with
/// groups of p, at a larger bubble. The first `recompute_chunks` chunks of each stage keep only
/// their input and run their forward again right before the input gradient.
///
/// A block of `group` microbatches in all chunks is repeated. Costs decide only how long a group
/// must be for its backward to follow its forward at once.
/// \throws ScheduleError  unless group is from 1 to p, and 1 with recompute; if recompute_chunks is
///         more than the chunks; or if two tasks of the block share a slot, which some numbers of
///         chunks, stages and groups lead to.
/// Source: sail-sg/zero-bubble, scheduler/group_interleaved_1f1b.py.
PipelineOrder group_interleaved_order(int stages,
                                      int microbatches,
                                      int chunks,
                                      int group,
                                      int recompute_chunks,
                                      ChunkCosts const& costs);

}  // namespace stagecraft
