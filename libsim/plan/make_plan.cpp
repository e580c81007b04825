#include "libsim/plan/make_plan.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "libsim/plan/plan_programs.hpp"
#include "libsim/plan/stage_tasks.hpp"
#include "libsim/plan/step_program.hpp"
#include "libsim/plan/step_ranges.hpp"
#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/training/run_schedule.hpp"

namespace stagecraft {

namespace {

/// What the host has of all microbatches in flight on a stage, at most.
Bytes most_offloaded(TrainingPlan const& plan, StagePlan const& stage) {
  Bytes now;
  Bytes most;
  visit_entries(stage.program, [&](IssueEntry const& entry, std::int32_t /*advance*/) {
    if (entry.kind != IssueEntry::Kind::run) return;
    Task const& task = stage.tasks[static_cast<std::size_t>(entry.task)];
    if (task.kind == Task::Kind::step) return;
    Bytes const of_chunk = plan.programs.chunks[static_cast<std::size_t>(task.program)].offloaded;
    if (task.kind == Task::Kind::forward && task.first_block == 0) now += of_chunk;
    most = std::max(most, now);
    if (ends_in_flight(task)) now -= of_chunk;
  });
  return most;
}

}  // namespace

TrainingPlan make_plan(SettledConfig const& settled) {
  TrainingConfig const& config = settled.get();
  ScheduleShape const shape = checked_shape(schedule_shape(config));
  if (shape.order) check_recompute_tasks(config, *shape.order);
  TrainingPlan plan = make_programs(config, placement_of(shape), splits_backward(shape));
  PipelineSchedule schedule = lay_out_checked(shape);
  plan.channels = schedule.channels;
  plan.messages = schedule.messages;
  plan.most_queued = schedule.most_queued;
  StageRanges ranges;
  for (StageId const id : plan.stages.ids()) {
    StagePlan& stage = plan.stages[id];
    // Most stages hold what the one before does.
    bool const is_alike =
        id != StageId{0} && have_equal_ranges(plan, plan.stages[previous(id)], stage);
    if (!is_alike) ranges = stage_ranges(plan, stage);
    append_begin_of_step(stage, plan);
    append_microbatches(stage, plan, schedule);
    if (config.offload.activations != ActivationOffload{}) {
      stage.offloaded = most_offloaded(plan, stage);
    }
    schedule.stages[id] = {};  // a long order takes as much memory as the plan
    append_end_of_step(stage, plan, ranges);
  }
  return plan;
}

}  // namespace stagecraft
