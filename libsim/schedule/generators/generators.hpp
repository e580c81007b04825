#pragma once

#include <vector>

#include "libsim/schedule/orders/chunk_costs.hpp"
#include "libsim/schedule/orders/memory_changes.hpp"
#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// The forwards of a stage whose microbatches go in groups of `group` (the last may be shorter)
/// through one chunk after the other; the backwards go through the chunks in reverse.
/// Source: Megatron-LM core/pipeline_parallel/schedules.py, get_schedule_table.
std::vector<ChunkRun> grouped_forwards(int microbatches, int chunks, int group);

/// Interleaved 1F1B, without regard to how messages are exchanged. A group has from p to n
/// microbatches, and the last group is full or has at least p; or, as in PyTorch, one group has all
/// n < p.
/// \throws ScheduleError  for another group.
/// Source: Megatron-LM core/pipeline_parallel/schedules.py; PyTorch
/// torch/distributed/pipelining/schedules.py, ScheduleInterleaved1F1B.
PipelineOrder interleaved_order(int stages, int microbatches, int chunks, int group);

/// GPipe with several chunks: all microbatches go through a chunk before the next one begins, and
/// back in reverse order. Each stage keeps the activations of all of them.
/// Source: PyTorch torch/distributed/pipelining/schedules.py, ScheduleLoopedBFS; Lamy-Poirier 2022,
/// arXiv:2211.05953 (breadth-first).
PipelineOrder looped_order(int stages, int microbatches, int chunks);

/// interleaved_order() with one more warm-up forward, so that each steady forward and backward have
/// different microbatches and overlap: experts of one communicate while the other computes.
/// \throws ScheduleError  if interleaved_order() does, or for one chunk on several stages.
/// Source: Megatron-LM core/pipeline_parallel/combined_1f1b.py (overlap_moe_expert_parallel_comm).
PipelineOrder expert_overlap_order(int stages, int microbatches, int chunks, int group);

/// Interleaved zero bubble: microbatches in max(1, n/p) groups; stage r keeps the weight gradients
/// of r chunk passes back and warms up with one forward less per later stage than interleaved 1F1B.
/// \throws ScheduleError  unless max(1, floor(n/p)) divides n.
/// Source: PyTorch torch/distributed/pipelining/schedules.py, ScheduleInterleavedZeroBubble.
PipelineOrder interleaved_zb_order(int stages, int microbatches, int chunks);

/// ZB-H1, the quick variant: memory of 1F1B, and a third of its bubble if F = I = W.
///
/// Stage r warms up with min(p-r-1, n) forwards and then alternates forwards and gradients. It
/// keeps the weight gradients of its first r microbatches for the end, where they fill the bubble.
/// If keeping one gains nothing (on stage 0, in the steady state), the backward runs whole.
/// Source: sail-sg/zero-bubble, branch zb-h1-quick-start; Qi et al. 2023, arXiv:2401.10241.
PipelineOrder zb_h1_order(int stages, int microbatches);

/// ZB-H1 of the paper, in which every backward is split. From k = r on, the oldest waiting weight
/// gradient follows the k-th input gradient of stage r. The last r weight gradients are the last
/// tasks of the stage.
/// Source: Qi et al. 2023, arXiv:2401.10241, section 2.2 and figure 2.
PipelineOrder unfused_zb_h1_order(int stages, int microbatches);

/// ZB-H2: twice the memory of 1F1B; no bubble within the span of a stage if F = I = W.
///
/// Stage r warms up with 2(p-r)-1 forwards and then alternates forwards and input gradients; once
/// 2r weight gradients are waiting, each input gradient is followed by the oldest.
/// \throws ScheduleError  if n < 2p-1.
/// Source: Qi et al. 2023, arXiv:2401.10241, section 2.2 and figure 3; no public code has it.
PipelineOrder zb_h2_order(int stages, int microbatches);

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

/// ZB-1P, ZB-2P and between them: the automatic zero-bubble schedule for given costs and memory.
///
/// Forwards and input gradients are placed microbatch by microbatch; weight gradients run when a
/// stage would wait or its memory would exceed the limit. Three choices that no rule settles are
/// tried both ways. The result is the order of least span among these eight, the first of equals.
/// `memory_limit` is in the unit of `memory` and holds on every stage: p and 2p forwards give ZB-1P
/// and ZB-2P.
/// \throws ScheduleError  if the microbatches do not fit into the limit.
/// Source: sail-sg/zero-bubble, scheduler/zb.py; Qi et al. 2023, arXiv:2401.10241, section 3.1.
PipelineOrder zb_auto_order(int stages,
                            int microbatches,
                            ChunkCosts const& costs,
                            MemoryChanges const& memory,
                            double memory_limit);

/// ZB-V by a fixed rule: the memory of 1F1B, and no bubble within the span of a stage if F = I = W.
///
/// It is laid out for at least 2p-1 microbatches; the tasks of microbatches beyond n are left out,
/// so fewer microbatches leave holes.
/// Source: PyTorch torch/distributed/pipelining/schedules.py, ScheduleZBVZeroBubble; Qi et al. 2024,
/// arXiv:2405.15362.
PipelineOrder zbv_order(int stages, int microbatches);

/// ZB-V for given costs and memory. Each round runs one gradient on every stage, and one forward on
/// those that have one left; weight gradients run when a stage would wait or its memory would
/// exceed the limit.
///
/// Two choices that no rule settles are tried both ways. Each is tried again as long as that helps,
/// with the bubble of the try before as the time that a stage may waste. The result is the order
/// with the least bubble, the first of equals.
/// `memory_limit` is in the unit of `memory` and holds on every stage, with two chunks in flight at
/// least; 2p forwards are the memory of 1F1B.
/// \throws ScheduleError  if the microbatches do not fit into the limit.
/// Source: sail-sg/zero-bubble, scheduler/zbv.py; Qi et al. 2024, arXiv:2405.15362.
PipelineOrder zbv_auto_order(int stages,
                             int microbatches,
                             ChunkCosts const& costs,
                             MemoryChanges const& memory,
                             double memory_limit);

/// V-Half: half of the activation memory of 1F1B, at about half of its bubble.
///
/// A block of four tasks of one microbatch, the same on every stage but for its shift, is repeated
/// every six slots. Then tasks before and after the steady state move to earlier free slots as long
/// as dependencies hold and no stage's peak grows. Costs do not enter.
/// Source: sail-sg/zero-bubble, scheduler/zbv_greedy.py; Qi et al. 2024, arXiv:2405.15362.
PipelineOrder v_half_order(int stages, int microbatches);

/// V-Min: a third of the activation memory of 1F1B, at about two thirds of its bubble. It is made
/// like V-Half, from another block. Its bubble grows with n if F, I and W differ.
PipelineOrder v_min_order(int stages, int microbatches);

/// The V schedule of least span, among some hundreds of building blocks, that holds at most
/// `memory_limit` chunks per stage (2p are the memory of 1F1B).
///
/// A block is the six slots of stage 0 with their shifts from stage to stage. It is repeated, its
/// warm-up and cool-down are reorganised, and gaps are filled without a larger peak. The first of
/// equals wins.
/// \throws ScheduleError  for one stage, or if no block stays within the limit.
/// Source: sail-sg/zero-bubble, scheduler/v_auto_schedule.py; Qi et al. 2024, arXiv:2405.15362,
/// section 3 and appendix A.
PipelineOrder v_auto_order(int stages, int microbatches, ChunkCosts const& costs, int memory_limit);

/// 1F1B-V: two chunks per stage in a V, whole backwards; less memory than 1F1B at a larger bubble.
///
/// A block of six slots per stage is repeated for each microbatch; then tasks move to earlier free
/// slots as long as dependencies hold and no forward makes a stage hold more than its peak.
/// Source: sail-sg/zero-bubble, scheduler/v1f1b.py; Qi et al. 2024, arXiv:2405.15362.
PipelineOrder v_unsplit_order(int stages, int microbatches);

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
