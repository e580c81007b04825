#include "libsim/schedule/schedule_layout.hpp"

#include <string>
#include <utility>

#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/schedule/orders/interleaving.hpp"
#include "libsim/schedule/schedule_rules.hpp"
#include "libsim/schedule/stage_exchanges.hpp"
#include "libsim/schedule/stage_order.hpp"
#include "libsim/schedule/stage_writer.hpp"

namespace stagecraft {

namespace {

[[noreturn]] void refuse(std::string const& what, std::int64_t found, std::string const& accepted) {
  throw ScheduleError{what, "'" + std::to_string(found) + "'", accepted};
}

void check_counts(ScheduleShape const& shape) {
  std::string const positive = "a whole number from 1";
  if (shape.stages < 1) refuse("pipeline stages", shape.stages, positive);
  if (shape.microbatches < 1) refuse("microbatches", shape.microbatches, positive);
  if (shape.chunks < 1) refuse("chunks per stage", shape.chunks, positive);
  // Two factors at a time: the product of three ints can exceed 64 bits.
  std::int64_t const virtual_stages = std::int64_t{shape.stages} * shape.chunks;
  if (virtual_stages > max_scheduled_forwards ||
      virtual_stages * shape.microbatches > max_scheduled_forwards) {
    throw ScheduleError{"stages x chunks x microbatches",
                        "'" + std::to_string(shape.stages) + " x " + std::to_string(shape.chunks) +
                            " x " + std::to_string(shape.microbatches) + "'",
                        "a product of at most " + std::to_string(max_scheduled_forwards)};
  }
}

void check_group(ScheduleShape const& shape) {
  int const p = shape.stages;
  int const n = shape.microbatches;
  if (p < 2) refuse("pipeline stages of the interleaved schedule", p, "a whole number from 2");
  if (n < p) {
    refuse("microbatches of the interleaved schedule", n,
           "at least the number of pipeline stages (" + std::to_string(p) + ")");
  }
  if (!is_group(shape.group, n, p)) {
    refuse("microbatches per group", shape.group, accepted_groups(n, p));
  }
}

/// Writes the program of a stage for the microbatches of `shape`.
void write_stage(StageWriter& writer,
                 VirtualOrder const& order,
                 ScheduleShape const& shape,
                 StageId stage) {
  int const warmup = warmup_forwards(shape, stage);
  if (shape.p2p == P2p::overlapped) {
    append_overlapped_entries(writer, stage_order(order, warmup));
  } else if (rules_of(shape.kind).takes_chunks) {
    append_interleaved_blocking_entries(writer, order, shape, stage);
  } else {
    append_blocking_entries(writer, order, warmup);
  }
}

}  // namespace

std::string accepted_groups(std::int64_t microbatches, std::int64_t stages) {
  constexpr int most = 8;
  std::string text;
  int count = 0;
  for (std::int64_t group = stages; group <= microbatches; ++group) {
    if (!is_group(group, microbatches, stages)) continue;
    if (++count > most) return text + ", ...";
    text += (text.empty() ? "" : ", ") + std::to_string(group);
  }
  return text;
}

ScheduleShape checked_shape(ScheduleShape shape) {
  check_counts(shape);
  if (has_order(shape.kind)) return with_order(std::move(shape));
  if (rules_of(shape.kind).takes_chunks) {
    if (shape.group == 0) shape.group = shape.stages;
    check_group(shape);
    return shape;
  }
  if (shape.chunks != 1) {
    refuse("chunks per stage", shape.chunks, "1 unless the schedule is interleaved");
  }
  if (shape.group != 0) {
    refuse("microbatches per group", shape.group, "none unless the schedule is interleaved");
  }
  return shape;
}

Placement placement_of(ScheduleShape const& shape) {
  return has_order(shape.kind) ? placement_of_order(shape) : rules_of(shape.kind).placement(shape);
}

PipelineSchedule lay_out(ScheduleShape const& shape, SteadyLoop const& loop) {
  PipelineSchedule schedule;
  schedule.shape = shape;
  schedule.placement = placement_of(shape);
  schedule.channels = 2 * (schedule.placement.virtual_stages() - 1);
  schedule.messages = schedule.channels * shape.microbatches;
  // A stage is ahead of another by at most its warm-up, of which the microbatches laid out hold
  // all.
  schedule.most_queued = loop.shape.microbatches + 1;
  VirtualOrder const order{loop.shape};
  schedule.stages.resize(static_cast<std::size_t>(shape.stages));
  for (StageId const stage : schedule.stages.ids()) {
    StageWriter writer{schedule, loop, stage};
    write_stage(writer, order, loop.shape, stage);
  }
  return schedule;
}

PipelineSchedule lay_out_checked(ScheduleShape const& shape) {
  return shape.order ? lay_out_order(shape) : lay_out(shape, find_loop(shape));
}

PipelineSchedule make_pipeline_schedule(ScheduleShape const& shape) {
  return lay_out_checked(checked_shape(shape));
}

}  // namespace stagecraft
