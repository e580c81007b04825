#pragma once

#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// ZB-H1, the quick variant: memory of 1F1B, and a third of its bubble if F = I = W.
///
/// Stage r warms up with min(p-r-1, n) forwards and then alternates forwards and gradients. It
/// keeps the weight gradients of its first r microbatches for the end, where they fill the bubble;
/// where nothing is gained by keeping one (stage 0, the steady state) the backward runs whole.
/// Source: sail-sg/zero-bubble, branch zb-h1-quick-start; Qi et al. 2023, arXiv:2401.10241.
PipelineOrder zb_h1_order(int stages, int microbatches);

/// ZB-H1 of the paper, in which every backward is split: the k-th input gradient of stage r is
/// followed by the oldest waiting weight gradient from k = r on. Its last r weight gradients are
/// the last tasks of the stage.
/// Source: Qi et al. 2023, arXiv:2401.10241, section 2.2 and figure 2.
PipelineOrder unfused_zb_h1_order(int stages, int microbatches);

/// ZB-H2: twice the memory of 1F1B; no bubble within the span of a stage if F = I = W.
///
/// Stage r warms up with 2(p-r)-1 forwards and then alternates forwards and input gradients; once
/// 2r weight gradients are waiting, each input gradient is followed by the oldest.
/// \throws ScheduleError  if n < 2p-1.
/// Source: Qi et al. 2023, arXiv:2401.10241, section 2.2 and figure 3; no public code has it.
PipelineOrder zb_h2_order(int stages, int microbatches);

}  // namespace stagecraft
