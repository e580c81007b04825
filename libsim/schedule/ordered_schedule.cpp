#include "libsim/schedule/ordered_schedule.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "libsim/schedule/orders/order_timeline.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"
#include "libsim/schedule/stage_exchanges.hpp"
#include "libsim/schedule/stage_writer.hpp"
#include "libsim/schedule/steady_loop.hpp"

namespace stagecraft {
namespace {

[[noreturn]] void refuse(std::string const& what,
                         std::string const& found,
                         std::string const& accepted) {
  throw ScheduleError{what, "'" + found + "'", accepted};
}

void check_size(std::string const& what, int found, int accepted) {
  if (found == accepted) return;
  refuse(what + " of the order", std::to_string(found), std::to_string(accepted));
}

/// The microbatches in the order in which a stage runs them through one of its chunks in a pass.
std::vector<MicrobatchId> sequence_of(PipelineOrder const& order,
                                      ChunkPlace const& place,
                                      bool is_forward) {
  std::vector<MicrobatchId> microbatches;
  for (OrderTask const& task : order.stages[place.stage.index()]) {
    bool const is_wanted =
        is_forward ? task.run.pass == Pass::forward : gives_gradient(task.run.pass);
    if (is_wanted && task.run.chunk == place.chunk) microbatches.push_back(task.run.microbatch);
  }
  return microbatches;
}

/// A channel hands its messages on in the order in which they were sent.
void check_message_order(PipelineOrder const& order) {
  for (VirtualStageId const v : order.placement.virtual_stage_ids()) {
    if (order.placement.is_first(v)) continue;
    for (bool const is_forward : {true, false}) {
      ChunkPlace const before = order.placement.place(previous(v));
      ChunkPlace const after = order.placement.place(v);
      if (sequence_of(order, before, is_forward) == sequence_of(order, after, is_forward)) continue;
      refuse("order",
             std::string{is_forward ? "forwards" : "gradients"} + " of stages " +
                 std::to_string(before.stage.value()) + " and " +
                 std::to_string(after.stage.value()) +
                 " that take microbatches in different orders",
             "one order of microbatches between two neighbouring stages");
    }
  }
}

/// An order that is not a rule's may be anything.
void check_given(ScheduleShape const& shape) {
  PipelineOrder const& order = *shape.order;
  check_size("stages", static_cast<int>(order.stages.size()), shape.stages);
  check_size("chunks per stage", order.placement.chunks(), shape.chunks);
  check_size("microbatches", order.microbatches, shape.microbatches);
  play_order(order, {});  // finds what is illegal, and circles
  check_message_order(order);
}

}  // namespace

bool depends_on_costs(ScheduleKind kind, OrderVariant variant) {
  switch (traits_of(kind).fits_costs) {
    case FitsCosts::never:
      return false;
    case FitsCosts::always:
      return true;
    case FitsCosts::automatic:
      return variant == OrderVariant::automatic;
  }
  throw std::logic_error{"not a FitsCosts"};
}

void check_independent_of_costs(ScheduleKind kind, OrderVariant variant) {
  if (!depends_on_costs(kind, variant)) return;
  refuse("schedule",
         std::string{name_of(kind)} + ", whose order depends on costs that no plan knows",
         "the order itself, as --print-config writes it");
}

int chunks_of(ScheduleConfig const& schedule) {
  if (schedule.kind == ScheduleKind::order && schedule.order) {
    return schedule.order->placement.chunks();
  }
  return traits_of(schedule.kind).chunks;
}

Placement placement_of_order(ScheduleShape const& shape) {
  if (shape.order) return shape.order->placement;
  return make_placement(traits_of(shape.kind).placement, shape.stages, shape.chunks);
}

OrderRequest order_request(ScheduleShape const& shape) {
  OrderRequest request;
  request.kind = shape.kind;
  request.stages = shape.stages;
  request.microbatches = shape.microbatches;
  request.chunks = shape.chunks;
  request.group = shape.group;
  request.variant = shape.variant;
  request.fuse_adjacent = shape.fuse_adjacent;
  return request;
}

ScheduleShape with_order(ScheduleShape shape) {
  std::int64_t const forwards =
      std::int64_t{shape.stages} * shape.chunks * std::int64_t{shape.microbatches};
  if (forwards > max_ordered_forwards) {
    refuse("stages x chunks x microbatches", std::to_string(forwards),
           "a product of at most " + std::to_string(max_ordered_forwards) + " with " +
               std::string{name_of(shape.kind)});
  }
  if (shape.order) {
    check_given(shape);
    return shape;
  }
  if (shape.kind == ScheduleKind::order) refuse("schedule", "order", "an order: orders or file");
  check_independent_of_costs(shape.kind, shape.variant);
  int const chunks = chunks_of({.kind = shape.kind});
  if (chunks > 0 && shape.chunks != chunks) {
    refuse("chunks per stage", std::to_string(shape.chunks),
           std::to_string(chunks) + " with " + std::string{name_of(shape.kind)});
  }
  shape.order = SharedOrder{make_order(order_request(shape))};
  return shape;
}

PipelineSchedule lay_out_order(ScheduleShape const& shape) {
  PipelineOrder const& order = *shape.order;
  PipelineSchedule schedule;
  schedule.shape = shape;
  schedule.placement = order.placement;
  schedule.channels = 2 * (schedule.placement.virtual_stages() - 1);
  schedule.messages = schedule.channels * shape.microbatches;
  schedule.most_queued = shape.microbatches;
  schedule.stages.resize(static_cast<std::size_t>(shape.stages));
  SteadyLoop const no_loop{.shape = shape};
  for (StageId const stage : schedule.stages.ids()) {
    StageWriter writer{schedule, no_loop, stage};
    append_ordered_entries(writer, order.stages[stage.index()]);
  }
  return schedule;
}

}  // namespace stagecraft
