#include "libsim/plan/pipeline_schedule.hpp"

#include <string>

#include "libsim/plan/stage_exchanges.hpp"
#include "libsim/plan/stage_order.hpp"

namespace stagecraft {

namespace {

[[noreturn]] void refuse(std::string const& what, std::int64_t found, std::string const& accepted) {
  throw ScheduleError{what + ": found '" + std::to_string(found) + "'; accepted: " + accepted};
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
    throw ScheduleError{"stages x chunks x microbatches: found '" + std::to_string(shape.stages) +
                        " x " + std::to_string(shape.chunks) + " x " +
                        std::to_string(shape.microbatches) + "'; accepted: a product of at most " +
                        std::to_string(max_scheduled_forwards)};
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
  int const rest = shape.group < 1 ? 0 : n % shape.group;
  if (shape.group < p || shape.group > n || (rest != 0 && rest < p)) {
    refuse("microbatches per group", shape.group,
           std::to_string(p) + " to " + std::to_string(n) + ", with the last of " +
               std::to_string(n) + " microbatches' groups full or of at least " +
               std::to_string(p));
  }
}

/// The shape with its group filled in.
ScheduleShape checked(ScheduleShape shape) {
  check_counts(shape);
  if (shape.kind == ScheduleKind::interleaved) {
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

StageSchedule make_stage(ScheduleShape const& shape, VirtualOrder const& order, int stage) {
  StageWriter writer{shape, stage};
  int const warmup = warmup_forwards(shape, stage);
  if (shape.p2p == P2p::overlapped) {
    append_overlapped_steps(writer, stage_order(order, warmup));
  } else if (shape.kind == ScheduleKind::interleaved) {
    append_interleaved_blocking_steps(writer, order, shape, stage);
  } else {
    append_blocking_steps(writer, order, warmup);
  }
  return std::move(writer).finish();
}

}  // namespace

PipelineSchedule make_pipeline_schedule(ScheduleShape const& shape) {
  PipelineSchedule schedule;
  schedule.shape = checked(shape);
  schedule.messages = message_count(schedule.shape);
  VirtualOrder const order{schedule.shape};
  schedule.stages.reserve(static_cast<std::size_t>(schedule.shape.stages));
  for (int stage = 0; stage < schedule.shape.stages; ++stage) {
    schedule.stages.push_back(make_stage(schedule.shape, order, stage));
  }
  return schedule;
}

}  // namespace stagecraft
