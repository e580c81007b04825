#pragma once

#include "libsim/schedule/generators/order_request.hpp"
#include "libsim/schedule/pipeline_schedule.hpp"

namespace stagecraft {

/// The limit on the forwards (p * n * m) of an order.
inline constexpr std::int64_t max_ordered_forwards = 1'000'000;

/// Whether schedules of the kind are made as an order first (libsim/schedule). GPipe, 1F1B and
/// interleaved 1F1B are laid out by rules, which know their steady-state loop.
constexpr bool has_order(ScheduleKind kind) {
  return kind != ScheduleKind::gpipe && kind != ScheduleKind::one_f_one_b &&
         kind != ScheduleKind::interleaved;
}

/// Whether microbatches go through the kind's chunks in groups.
constexpr bool takes_group(ScheduleKind kind) { return traits_of(kind).takes_group; }

/// Whether schedules of the kind are made by a rule or a heuristic that splits backwards.
constexpr bool may_split_backward(ScheduleKind kind) { return traits_of(kind).splits_backward; }

/// How many copies of the model the kind's schedules hold.
constexpr int copies_of(ScheduleKind kind) {
  return traits_of(kind).placement == PlacementShape::bidirectional ? 2 : 1;
}

/// Whether the kind's own order has pairs of passes, which run beside each other.
constexpr bool has_pairs(ScheduleKind kind) { return traits_of(kind).has_pairs; }

/// Whether the kind's order follows from costs or from memory, so that it has to be settled before
/// there is a plan (libsim/engine/settle.hpp).
bool depends_on_costs(ScheduleKind kind, OrderVariant variant);

/// \throws ScheduleError  if depends_on_costs().
void check_independent_of_costs(ScheduleKind kind, OrderVariant variant);

/// How many chunks a stage has in the kind's schedules, if the kind says so; else 0.
int chunks_of(ScheduleConfig const& schedule);

/// The stage and chunk of each virtual stage. Pre: has_order(shape.kind).
Placement placement_of_order(ScheduleShape const& shape);

/// What the order of a shape follows from, but for costs and memory.
OrderRequest order_request(ScheduleShape const& shape);

/// The shape with its order: made by the kind's rule, or the given one, checked.
/// \throws ScheduleError  if the kind depends on costs and no order is given; if the order is illegal
///         or does not match the shape's stages, chunks and microbatches; and if a plan cannot hold
///         it, as it lets one microbatch overtake another between two stages.
ScheduleShape with_order(ScheduleShape shape);

/// Lays out the shape's order, without repeats. Pre: with_order() has checked it.
PipelineSchedule lay_out_order(ScheduleShape const& shape);

}  // namespace stagecraft
