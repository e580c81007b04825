#pragma once

#include "libsim/schedule/orders/chunk_costs.hpp"
#include "libsim/schedule/orders/memory_changes.hpp"
#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// ZB-1P, ZB-2P and between them: the automatic zero-bubble schedule for given costs and memory.
///
/// Forwards and input gradients are placed microbatch by microbatch, weight gradients where a stage
/// would wait or its memory would exceed the limit. Three choices that no rule settles are tried
/// both ways; of the eight orders the one with the least span is taken, the first of equals.
/// `memory_limit` is in the unit of `memory` and holds on every stage: p and 2p forwards give ZB-1P
/// and ZB-2P.
/// \throws ScheduleError  if the microbatches do not fit into the limit.
/// Source: sail-sg/zero-bubble, scheduler/zb.py; Qi et al. 2023, arXiv:2401.10241, section 3.1.
PipelineOrder zb_auto_order(int stages,
                            int microbatches,
                            ChunkCosts const& costs,
                            MemoryChanges const& memory,
                            double memory_limit);

}  // namespace stagecraft
