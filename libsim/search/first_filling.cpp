#include "libsim/search/first_filling.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "libsim/engine/store_window.hpp"

namespace stagecraft {

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
