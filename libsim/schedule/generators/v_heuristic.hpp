#pragma once

#include "libsim/schedule/orders/chunk_costs.hpp"
#include "libsim/schedule/orders/memory_changes.hpp"
#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// ZB-V for given costs and memory: each round runs one gradient on every stage and one forward on
/// those that have one left; weight gradients run where a stage would wait or its memory would
/// exceed the limit.
///
/// Two choices that no rule settles are tried both ways, each again with the bubble of the try
/// before as what a stage may waste; the order with the least bubble is taken, the first of equals.
/// `memory_limit` is in the unit of `memory` and holds on every stage, with two chunks in flight at
/// least; 2p forwards are the memory of 1F1B.
/// \throws ScheduleError  if the microbatches do not fit into the limit.
/// Source: sail-sg/zero-bubble, scheduler/zbv.py; Qi et al. 2024, arXiv:2405.15362.
PipelineOrder zbv_auto_order(int stages,
                             int microbatches,
                             ChunkCosts const& costs,
                             MemoryChanges const& memory,
                             double memory_limit);

}  // namespace stagecraft
