#include "libsim/search/stage_filling.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft {

StageFilling::StageFilling(TrainingConfig config, std::vector<std::vector<RecomputePolicy>> options)
    : config_{std::move(config)}, options_{std::move(options)}, chosen_(options_.size(), 0) {
  config_.recompute.clear();
  for (auto const& of_stage : options_) config_.recompute.push_back(of_stage.front());
}

bool StageFilling::refuse(std::vector<StageId> const& stages) {
  changed_ = stages;
  for (StageId const stage : stages) {
    std::size_t const next = ++chosen_[stage.index()];
    if (next == options_[stage.index()].size()) return false;
    config_.recompute[stage.index()] = options_[stage.index()][next];
  }
  return true;
}

bool StageFilling::is_uniform() const {
  return std::ranges::all_of(config_.recompute, [this](RecomputePolicy const& policy) {
    return policy == config_.recompute.front();
  });
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
