#pragma once

#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// ZB-V by a fixed rule: the memory of 1F1B, and no bubble within the span of a stage if F = I = W.
///
/// It is laid out for at least 2p-1 microbatches; the tasks of those beyond n are left out, so
/// fewer microbatches leave holes.
/// Source: PyTorch torch/distributed/pipelining/schedules.py, ScheduleZBVZeroBubble; Qi et al. 2024,
/// arXiv:2405.15362.
PipelineOrder zbv_order(int stages, int microbatches);

}  // namespace stagecraft
