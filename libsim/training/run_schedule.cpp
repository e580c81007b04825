#include "libsim/training/run_schedule.hpp"

#include <cstddef>
#include <string>

#include "libsim/schedule/orders/schedule_error.hpp"
#include "libsim/schedule/schedule_layout.hpp"

namespace stagecraft {

ScheduleShape schedule_shape(TrainingConfig const& config) {
  return {.kind = config.schedule.kind,
          .stages = config.parallel.pipeline,
          .microbatches = static_cast<int>(microbatches(config)),
          .chunks = config.parallel.interleave,
          .group = config.schedule.group,
          .p2p = config.schedule.p2p,
          .order = config.schedule.order,
          .variant = config.schedule.variant,
          .fuse_adjacent = config.schedule.fuse_adjacent};
}

Placement placement_of(TrainingConfig const& config) {
  return placement_of({.kind = config.schedule.kind,
                       .stages = config.parallel.pipeline,
                       .chunks = config.parallel.interleave,
                       .order = config.schedule.order});
}

void check_recompute_tasks(TrainingConfig const& config, PipelineOrder const& order) {
  for (std::size_t stage = 0; stage < order.stages.size(); ++stage) {
    RecomputePolicy const& policy = config.recompute[config.recompute.size() == 1 ? 0 : stage];
    if (policy.early == EarlyRecompute::bubble) continue;
    for (OrderTask const& task : order.stages[stage]) {
      if (task.run.pass != Pass::recompute) continue;
      throw ScheduleError{"order: stage " + std::to_string(stage), "a task R",
                          "tasks F, B, I and W, as recompute.early is not bubble there"};
    }
  }
}

}  // namespace stagecraft
