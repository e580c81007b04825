#pragma once

#include <cstdint>
#include <string>

#include "libsim/schedule/orders/pipeline_order.hpp"
#include "libsim/schedule/orders/placement.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"
#include "libsim/schedule/pipeline_schedule.hpp"
#include "libsim/schedule/schedule_shape.hpp"
#include "libsim/schedule/steady_loop.hpp"

namespace stagecraft {

/// The limit on the forward computations (p * n * m) of a schedule: beyond it the issue entries
/// alone take gigabytes.
inline constexpr std::int64_t max_scheduled_forwards = 16'000'000;

/// The accepted group sizes as text, the smallest first: `8, 12, 16, ...`.
/// Pre: 1 <= stages <= microbatches.
std::string accepted_groups(std::int64_t microbatches, std::int64_t stages);

/// Returns the shape with its group, or its order, filled in.
/// \throws ScheduleError  if no schedule has it. Accepted: p, n, m from 1; interleaved: p >= 2,
///         p <= group <= n, and n mod group 0 or >= p; kinds with an order: what with_order()
///         accepts; others: m = 1 and no group.
ScheduleShape checked_shape(ScheduleShape shape);

/// The stage and chunk of each virtual stage.
Placement placement_of(ScheduleShape const& shape);

/// Whether some backward of the schedule is split. Pre: checked_shape() has made the shape.
inline bool splits_backward(ScheduleShape const& shape) {
  return shape.order && splits_backward(*shape.order);
}

/// Lays out a schedule. Kinds with an order of their own follow it with overlapped messages; see
/// append_ordered_entries().
///
/// GPipe (backward in the order of the forward), 1F1B and interleaved 1F1B are laid out as
/// Megatron-LM issues them.
///
/// Blocking p2p follows Megatron's joint calls: one exchange has the forward and backward messages
/// of a steady step. GPipe, which Megatron lacks, exchanges as 1F1B does if every forward is in the
/// warm-up. Overlapped p2p sends right after the producer, receives one computation ahead of the
/// consumer and relies on buffered sends; see append_overlapped_entries() in stage_exchanges.hpp.
/// An interleaved schedule with one chunk keeps its 2(p-r-1) warm-up forwards; Megatron's command
/// line turns that case into plain 1F1B.
/// \throws ScheduleError  if checked_shape() does.
/// Source: Megatron-LM core/pipeline_parallel/schedules.py; Narayanan et al. 2021,
/// arXiv:2104.04473, section 2.2; Huang et al. 2019, arXiv:1811.06965 (GPipe).
PipelineSchedule make_pipeline_schedule(ScheduleShape const& shape);
/// The same for a shape that checked_shape() has made.
PipelineSchedule lay_out_checked(ScheduleShape const& shape);
/// The same with a given steady-state loop, or without one. Pre: the shape is legal, its group is
/// filled in, and the loop belongs to it.
PipelineSchedule lay_out(ScheduleShape const& shape, SteadyLoop const& loop);

}  // namespace stagecraft
