#pragma once

#include <vector>

#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// The forwards of a stage whose microbatches go in groups of `group` (the last may be shorter)
/// through one chunk after the other; the backwards go through the chunks in reverse.
/// Source: Megatron-LM core/pipeline_parallel/schedules.py, get_schedule_table.
std::vector<ChunkRun> grouped_forwards(int microbatches, int chunks, int group);

/// Interleaved 1F1B, without regard to how messages are exchanged. A group is from p to n
/// microbatches, the last group full or of at least p; or, as in PyTorch, all n < p of them.
/// \throws ScheduleError  for another group.
/// Source: Megatron-LM core/pipeline_parallel/schedules.py; PyTorch
/// torch/distributed/pipelining/schedules.py, ScheduleInterleaved1F1B.
PipelineOrder interleaved_order(int stages, int microbatches, int chunks, int group);

/// The same with one more warm-up forward, so that each steady forward and backward are of
/// different microbatches and overlap: the communication of experts runs behind computation.
/// \throws ScheduleError  if interleaved_order() does, or for one chunk on several stages.
/// Source: Megatron-LM core/pipeline_parallel/combined_1f1b.py (overlap_moe_expert_parallel_comm).
PipelineOrder expert_overlap_order(int stages, int microbatches, int chunks, int group);

/// Interleaved zero bubble: microbatches in max(1, n/p) groups; stage r keeps the weight gradients
/// of r chunk passes back and warms up with one forward less per later stage than interleaved 1F1B.
/// \throws ScheduleError  unless max(1, floor(n/p)) divides n.
/// Source: PyTorch torch/distributed/pipelining/schedules.py, ScheduleInterleavedZeroBubble.
PipelineOrder interleaved_zb_order(int stages, int microbatches, int chunks);

}  // namespace stagecraft
