#include "libsim/engine/priced_plan.hpp"

#include <utility>

namespace stagecraft {

PricedPlan::PricedPlan(TrainingPlan const& plan, System const& system)
    : plan_{plan}, cost_{system, plan}, blocks_{profile_blocks(plan, cost_)} {
  int const p = plan.config.parallel.pipeline;
  ranks_.reserve(plan.stages.size());
  for (StagePlan const& rank : plan.stages) {
    Rank& profile = ranks_.emplace_back();
    profile.tasks = profile_tasks(plan, rank, blocks_, cost_);
    for (TaskProfile const& task : profile.tasks) profile.durations.push_back(task.duration);
    int const r = rank.stage;
    programs_.push_back({.steps = rank.steps,
                         .tasks = rank.tasks,
                         .transfers = rank.transfers,
                         .durations = profile.durations,
                         .activation = cost_.price_message(plan, r, (r + 1) % p),
                         .gradient = cost_.price_message(plan, r, (r + p - 1) % p)});
  }
}

TimelineInput PricedPlan::timeline() const {
  return {.ranks = programs_,
          .messages = plan_.messages,
          .p2p = plan_.config.schedule.p2p,
          .slowdown_millionths = cost_.data_parallel_slowdown_millionths(),
          .groups = &plan_.groups};
}

}  // namespace stagecraft
