#include "libsim/page/recompute_shares.hpp"

#include <cmath>
#include <stdexcept>
#include <vector>

#include "libsim/engine/player/costed_plan.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/make_plan.hpp"

namespace stagecraft {

RecomputeShares::RecomputeShares(RunConfig const& config) {
  TrainingPlan const plan = make_plan(as_settled(config.training));
  CostedPlan const costed{plan, config.system};
  for (std::size_t rank = 0; rank < plan.stages.size(); ++rank) {
    StagePlan const& rank_plan = plan.stages[StageId::of_index(rank)];
    std::vector<TaskProfile> const& profiles = costed.tasks(rank);
    visit_entries(rank_plan.program, [&](IssueEntry const& entry, std::int32_t advance) {
      if (entry.kind != IssueEntry::Kind::run) return;
      auto const index = static_cast<std::size_t>(entry.task);
      Task const& task = rank_plan.tasks[index];
      TaskProfile const& profile = profiles[index];
      bool const may_recompute =
          task.kind == Task::Kind::backward || task.kind == Task::Kind::input_gradient;
      if (!may_recompute || profile.duration.count() == 0) return;
      double const share = static_cast<double>(profile.shares.recompute.count()) /
                           static_cast<double>(profile.duration.count());
      shares_[{rank_plan.stage.value(), (entry.microbatch + advance).value(), task.chunk.value()}] =
          std::llround(share * 1e6);
    });
  }
}

std::int64_t RecomputeShares::millionths(std::int32_t stage,
                                         std::int64_t microbatch,
                                         std::int64_t chunk) const {
  auto const found = shares_.find({stage, microbatch, chunk});
  return found == shares_.end() ? 0 : found->second;
}

RecomputeShares recompute_shares_of(TraceMeta const& meta, RunConfig const& config) {
  try {
    if (fingerprint(make_plan(as_settled(config.training))) != meta.plan) return {};
    return RecomputeShares{config};
  } catch (std::invalid_argument const&) {
    return {};
  }
}

}  // namespace stagecraft
