#include "libsim/search/stage_filling.hpp"

#include <algorithm>
#include <utility>

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

std::vector<RecomputePolicy> smaller_windows(RecomputePolicy const& most) {
  std::vector<RecomputePolicy> policies;
  for (int count = most.store_microbatches.count; count >= 0; --count) {
    policies.push_back(most);
    policies.back().store_microbatches.count = count;
  }
  return policies;
}

}  // namespace stagecraft
