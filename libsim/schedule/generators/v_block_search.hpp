#pragma once

#include "libsim/schedule/orders/chunk_costs.hpp"
#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// The V schedule of least span, among some hundreds of building blocks, that holds at most
/// `memory_limit` chunks per stage (2p are the memory of 1F1B).
///
/// A block is six slots of stage 0 and how they shift from stage to stage. It is repeated, its
/// warm-up and cool-down are reorganised and gaps are filled without a larger peak; the first of
/// equals wins.
/// \throws ScheduleError  for one stage, or if no block stays within the limit.
/// Source: sail-sg/zero-bubble, scheduler/v_auto_schedule.py; Qi et al. 2024, arXiv:2405.15362,
/// section 3 and appendix A.
PipelineOrder v_auto_order(int stages, int microbatches, ChunkCosts const& costs, int memory_limit);

}  // namespace stagecraft
