#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libsim/plan/stage_program.hpp"
#include "libsim/plan/training_config.hpp"
#include "libsim/schedule/chunk_run.hpp"
#include "libsim/schedule/pipeline_order.hpp"
#include "libsim/schedule/placement.hpp"
#include "libsim/schedule/schedule_error.hpp"

namespace stagecraft {

/// The shape of a pipeline schedule, without what its chunks compute.
struct ScheduleShape {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int stages = 1;        ///< p
  int microbatches = 1;  ///< n, of one replica in one iteration
  int chunks = 1;        ///< m of the paper: chunks per stage
  int group = 0;         ///< interleaved: microbatches per group; 0 means p
  P2p p2p = P2p::blocking;
  /// Kinds that are laid out from an order (has_order()): the order, once it is made.
  SharedOrder order{};
  OrderVariant variant = OrderVariant::fixed;  ///< zbv
  std::optional<bool> fuse_adjacent{};         ///< see OrderRequest

  friend bool operator==(ScheduleShape const&, ScheduleShape const&) = default;
};

/// The parts that stage programs have. What a chunk recomputes belongs to its backward, or to its
/// input gradient, unless the order has a part of its own for it.
inline constexpr int part_count = 5;

/// What a part receives and sends. Activations go to the next virtual stage, gradients to the one
/// before. Pre: it is neither a weight gradient nor a recompute, which do neither.
constexpr Transfer::Payload message_of(Part part) {
  return part == Part::forward ? Transfer::Payload::activation : Transfer::Payload::gradient;
}

/// The programs of all stages, with their messages. A task is one part of one chunk (see task()).
struct PipelineSchedule {
  ScheduleShape shape;  ///< as asked for, with the group filled in
  Placement placement;
  IdVector<StageId, StageProgram> stages;
  int channels = 0;  ///< channel numbers are in [0, channels)
  int messages = 0;  ///< message numbers are in [0, messages)
  /// The largest number of messages of a channel that are sent and not yet received.
  int most_queued = 0;

  /// The task of a part of a chunk, the same on every stage.
  std::int32_t task(Part part, ChunkId chunk) const {
    return static_cast<std::int32_t>(part) * shape.chunks + chunk.value();
  }
  int tasks() const { return part_count * shape.chunks; }
  /// What an entry of kind run computes.
  ChunkRun run_of(IssueEntry const& entry) const {
    return {static_cast<Part>(entry.task / shape.chunks), entry.microbatch,
            ChunkId{entry.task % shape.chunks}};
  }
};

/// The limit on the forward computations (p * n * m) of a schedule: beyond it the issue entries
/// alone take gigabytes.
inline constexpr std::int64_t max_scheduled_forwards = 16'000'000;

/// Whether the interleaved schedule can run the microbatches in groups of `group`: stages <= group
/// <= microbatches, and the last group is full or has at least `stages` microbatches.
/// Source: microbatch_group_size_per_vp_stage of Megatron-LM, core/pipeline_parallel/schedules.py.
constexpr bool is_group(std::int64_t group, std::int64_t microbatches, std::int64_t stages) {
  return group >= stages && group <= microbatches &&
         (microbatches % group == 0 || microbatches % group >= stages);
}

/// The accepted group sizes as text, the smallest first: `8, 12, 16, ...`.
/// Pre: 1 <= stages <= microbatches.
std::string accepted_groups(std::int64_t microbatches, std::int64_t stages);

/// The shape with its group, or its order, filled in.
/// \throws ScheduleError  if no schedule has it. Accepted: p, n, m from 1; interleaved: p >= 2,
///         p <= group <= n, and n mod group 0 or >= p; kinds with an order: what checked_order()
///         accepts; others: m = 1 and no group.
ScheduleShape checked_shape(ScheduleShape shape);

/// The stage and chunk of each virtual stage.
Placement placement_of(ScheduleShape const& shape);
/// The same of a run, whatever its batch is.
Placement placement_of(TrainingConfig const& config);

/// Whether some backward of the schedule is split. Pre: checked_shape() has made the shape.
inline bool splits_backward(ScheduleShape const& shape) {
  return shape.order && splits_backward(*shape.order);
}

/// Lays out a schedule. Kinds with an order of their own follow it with overlapped messages; see
/// append_ordered_steps().
///
/// GPipe (backward in the order of the forward), 1F1B and interleaved 1F1B are laid out as
/// Megatron-LM issues them.
///
/// Blocking p2p follows Megatron's joint calls (forward and backward messages of a steady step in
/// one exchange). GPipe, which Megatron lacks, exchanges as 1F1B does if every forward is in the
/// warm-up. Overlapped p2p sends right after the producer, receives one computation ahead of the
/// consumer and relies on buffered sends; see append_overlapped_steps() in stage_exchanges.hpp.
/// An interleaved schedule with one chunk keeps its 2(p-r-1) warm-up forwards; Megatron's command
/// line turns that case into plain 1F1B.
/// \throws ScheduleError  if checked_shape() does.
/// Source: Megatron-LM core/pipeline_parallel/schedules.py; Narayanan et al. 2021,
/// arXiv:2104.04473, section 2.2; Huang et al. 2019, arXiv:1811.06965 (GPipe).
PipelineSchedule make_pipeline_schedule(ScheduleShape const& shape);
/// The same of a shape that checked_shape() has made.
PipelineSchedule lay_out_checked(ScheduleShape const& shape);

/// What the stages of a schedule compute in which order, without messages.
PipelineOrder order_of(PipelineSchedule const& schedule);

struct SteadyLoop;
/// The same with a given steady-state loop, or without one. Pre: the shape is legal, its group is
/// filled in, and the loop belongs to it.
PipelineSchedule lay_out(ScheduleShape const& shape, SteadyLoop const& loop);

}  // namespace stagecraft
