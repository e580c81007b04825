#include "libsim/engine/player/costed_plan.hpp"

#include <algorithm>

#include "libsim/plan/distinct_tasks.hpp"

namespace stagecraft {

CostedPlan::CostedPlan(TrainingPlan const& plan, System const& system)
    : plan_{plan},
      system_{system},
      cost_{system, plan},
      blocks_{profile_blocks(plan.programs, cost_)},
      channels_{channel_costs(plan, cost_)} {
  stages_.reserve(plan.stages.size());
  played_.reserve(plan.stages.size());
  DistinctTasks<TaskProfile> known{plan.programs};
  for (StagePlan const& stage : plan.stages) {
    Stage& made = stages_.emplace_back();
    made.tasks.reserve(stage.tasks.size());
    made.durations.reserve(stage.tasks.size());
    made.on_links.reserve(stage.tasks.size());
    for (Task const& task : stage.tasks) {
      TaskProfile const& profile =
          known.of(task, [&] { return profile_task(plan.programs, stage, task, blocks_, cost_); });
      made.tasks.push_back(profile);
      made.durations.push_back(profile.duration);
      made.on_links.push_back(profile.on_links);
    }
    played_.push_back({.program = &stage.program,
                       .tasks = stage.tasks,
                       .durations = made.durations,
                       .on_links = made.on_links});
  }
}

TimelineInput CostedPlan::timeline() const {
  return {.stages = played_,
          .channels = channels_,
          .most_queued = plan_.most_queued,
          .p2p = plan_.config.schedule.p2p,
          .slowdown_millionths = cost_.data_parallel_slowdown_millionths(),
          .groups = &plan_.groups};
}

std::vector<MessageCost> channel_costs(TrainingPlan const& plan, CostModel const& cost) {
  struct ToPeer {
    StageId peer;
    MessageCost cost;
  };
  std::vector<MessageCost> channels(static_cast<std::size_t>(plan.channels));
  for (StagePlan const& stage : plan.stages) {
    std::vector<ToPeer> known;  // a stage sends to few others, over many channels
    for (Transfer const& transfer : stage.program.transfers) {
      if (transfer.end != Transfer::End::send) continue;
      auto to_peer = std::find_if(known.begin(), known.end(),
                                  [&](ToPeer const& one) { return one.peer == transfer.peer; });
      if (to_peer == known.end()) {
        known.push_back({transfer.peer, cost.message_cost(stage.stage, transfer.peer)});
        to_peer = known.end() - 1;
      }
      channels[static_cast<std::size_t>(transfer.channel)] = to_peer->cost;
    }
  }
  return channels;
}

}  // namespace stagecraft
