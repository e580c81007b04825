#pragma once

#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// V-Half: half of the activation memory of 1F1B, at about half of its bubble.
///
/// A block of four tasks of one microbatch, the same on every stage but for its shift, is repeated
/// every six slots. Then tasks before and after the steady state move to earlier free slots as long
/// as dependencies hold and no stage's peak grows. Costs do not enter.
/// Source: sail-sg/zero-bubble, scheduler/zbv_greedy.py; Qi et al. 2024, arXiv:2405.15362.
PipelineOrder v_half_order(int stages, int microbatches);

/// V-Min: a third of the activation memory of 1F1B, at about two thirds of its bubble; made like
/// V-Half of another block. Its bubble grows with n if F, I and W differ.
PipelineOrder v_min_order(int stages, int microbatches);

}  // namespace stagecraft
