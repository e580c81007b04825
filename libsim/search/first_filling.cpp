#include "libsim/search/first_filling.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "libsim/engine/store_window.hpp"

namespace stagecraft {

StageFilling::StageFilling(TrainingConfig config, std::vector<std::vector<RecomputePolicy>> options)
    : config_{std::move(config)}, options_{std::move(options)}, chosen_(options_.size(), 0) {
  set_policies();
}

bool StageFilling::refuse(std::vector<StageId> const& stages) {
  changed_ = stages;
  for (StageId const stage : stages) {
    if (++chosen_[stage.index()] == options_[stage.index()].size()) return false;
  }
  set_policies();
  return true;
}

void StageFilling::set_policies() {
  std::vector<RecomputePolicy>& policies = config_.recompute;
  policies.clear();
  for (std::size_t i = 0; i < options_.size(); ++i) policies.push_back(options_[i][chosen_[i]]);
  bool const are_equal = std::ranges::all_of(
      policies, [&](RecomputePolicy const& policy) { return policy == policies.front(); });
  if (are_equal) policies.resize(1);
}

bool StageFilling::is_without_choice() const {
  return config_.recompute.size() == 1 && config_.recompute.front().store_microbatches.count == 0;
}

namespace {

/// The policies of a stage with a stored window: as many microbatches as `most` says, then ever
/// fewer. Pre: the policy stores a number of microbatches.
std::vector<RecomputePolicy> smaller_windows(RecomputePolicy const& most) {
  std::vector<RecomputePolicy> policies;
  for (int count = most.store_microbatches.count; count >= 0; --count) {
    policies.push_back(most);
    policies.back().store_microbatches.count = count;
  }
  return policies;
}

}  // namespace

TrainingConfig first_run(SearchRequest const& request,
                         Candidates const& candidates,
                         Candidate const& plan,
                         Bytes room) {
  TrainingConfig config = config_of(request, candidates, plan);
  if (plan.policy.kind != RecomputeKind::window) return config;
  std::optional<Bytes> const reserve = config.memory.reserve;
  config.memory.reserve =
      request.system.accelerator.memory.value - request.system.calibration.workspace.value - room;
  config = resolve_store_windows(std::move(config), request.system);
  config.memory.reserve = reserve;
  return config;
}

StageFilling first_filling(SearchRequest const& request,
                           CandidateSource& source,
                           Candidates const& candidates,
                           Candidate const& plan) {
  TrainingConfig const config = first_run(request, candidates, plan, source.room());
  std::vector<std::vector<RecomputePolicy>> options;
  if (plan.policy.kind == RecomputeKind::window) {
    for (int stage = 0; stage < config.parallel.pipeline; ++stage) {
      options.push_back(smaller_windows(policy_of(config, StageId{stage})));
    }
    return {config, std::move(options)};
  }
  Arrangement const& arrangement =
      candidates.arrangements[static_cast<std::size_t>(plan.arrangement)];
  for (auto const& codes : source.stage_policies(arrangement, plan.sharding)) {
    std::vector<RecomputePolicy>& of_stage = options.emplace_back();
    for (PolicyCode const code : codes) of_stage.push_back(policy_of(code));
  }
  return {config, std::move(options)};
}

}  // namespace stagecraft
