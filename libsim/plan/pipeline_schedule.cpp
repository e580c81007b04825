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
  if (!is_group(shape.group, n, p)) {
    refuse("microbatches per group", shape.group, accepted_groups(n, p));
  }
}

/// Takes a stage's order as steps with their microbatches.
class StepSink {
 public:
  StepSink(ScheduleShape const& shape, StageSchedule& stage) : stage_{stage} {
    auto const runs =
        2 * static_cast<std::size_t>(shape.microbatches) * static_cast<std::size_t>(shape.chunks);
    stage_.steps.reserve(3 * runs + 3);  // a computation, a post and a wait each, and the ends
    stage_.transfers.reserve(2 * runs);
  }

  void run(ChunkRun const& run) {
    auto const kind = run.kind == ChunkRun::Kind::forward ? ScheduleStep::Kind::forward
                                                          : ScheduleStep::Kind::backward;
    stage_.steps.push_back({.kind = kind, .chunk = run.chunk, .microbatch = run.microbatch});
  }
  void transfer(Transfer const& transfer, int /*row*/) { stage_.transfers.push_back(transfer); }
  void post(std::int32_t first, std::int32_t count) {
    stage_.steps.push_back({.kind = ScheduleStep::Kind::post, .first = first, .count = count});
  }
  void wait(std::int32_t first, std::int32_t count) {
    stage_.steps.push_back({.kind = ScheduleStep::Kind::wait, .first = first, .count = count});
  }

  void begin_stretch() {}
  int repeat(int /*times*/) { return 1; }

 private:
  StageSchedule& stage_;
};

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

PipelineSchedule make_pipeline_schedule(ScheduleShape const& shape) {
  PipelineSchedule schedule;
  schedule.shape = checked_shape(shape);
  schedule.messages = message_count(schedule.shape);
  VirtualOrder const order{schedule.shape};
  schedule.stages.resize(static_cast<std::size_t>(schedule.shape.stages));
  for (int stage = 0; stage < schedule.shape.stages; ++stage) {
    StepSink sink{schedule.shape, schedule.stages[static_cast<std::size_t>(stage)]};
    write_stage(schedule.shape, order, stage, sink);
  }
  return schedule;
}

}  // namespace stagecraft
