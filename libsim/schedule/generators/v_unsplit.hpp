#pragma once

#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// 1F1B-V: two chunks per stage in a V, whole backwards; less memory than 1F1B at a larger bubble.
///
/// A block of six slots per stage is repeated for each microbatch; then tasks move to earlier free
/// slots as long as dependencies hold and no forward makes a stage hold more than its peak.
/// Source: sail-sg/zero-bubble, scheduler/v1f1b.py; Qi et al. 2024, arXiv:2405.15362.
PipelineOrder v_unsplit_order(int stages, int microbatches);

}  // namespace stagecraft
