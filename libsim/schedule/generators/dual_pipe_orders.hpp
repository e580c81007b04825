#pragma once

#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// DualPipeV: p stages with two chunks each in a V; a forward of one chunk overlaps a backward of
/// the other. Bubble (p-1)(F&B + B - 3W); 2p + 1 chunks in flight.
/// \throws ScheduleError  if n < 2p.
/// Source: deepseek-ai/DualPipe, dualpipe/dualpipev.py; PyTorch
/// torch/distributed/pipelining/schedules.py, ScheduleDualPipeV.
PipelineOrder dualpipev_order(int stages, int microbatches);

/// DualPipe: two copies of the model in opposite directions over p stages, half of the microbatches
/// through each. Both copies of a stage's parameters receive gradients, which are to be summed.
/// Bubble (p/2-1)(F&B + B - 3W); p + 1 chunks in flight.
/// \throws ScheduleError  if p or n is odd, or n < 2p.
/// Source: deepseek-ai/DualPipe, dualpipe/dualpipe.py; DeepSeek-AI 2024, arXiv:2412.19437.
PipelineOrder dualpipe_order(int stages, int microbatches);

}  // namespace stagecraft
