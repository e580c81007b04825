#include "libsim/plan/make_plan.hpp"

#include <utility>

#include "libsim/plan/plan_programs.hpp"
#include "libsim/plan/stage_tasks.hpp"
#include "libsim/plan/step_program.hpp"
#include "libsim/plan/step_ranges.hpp"
#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/training/run_schedule.hpp"

namespace stagecraft {

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
    schedule.stages[id] = {};  // a long order takes as much memory as the plan
    append_end_of_step(stage, plan, ranges);
  }
  return plan;
}

}  // namespace stagecraft
