#include "apps/stagecraft/plan/plan_families.hpp"

#include <algorithm>
#include <numeric>

namespace stagecraft {
namespace {

/// Whether two plans differ only in how many layers or microbatches are recomputed.
bool are_one_family(TrainingConfig a, TrainingConfig b) {
  for (TrainingConfig* const config : {&a, &b}) {
    for (RecomputePolicy& policy : config->recompute) {
      policy.layers = 1;
      policy.store_microbatches.count = policy.store_microbatches.count > 0 ? 1 : 0;
    }
  }
  return a == b;
}

}  // namespace

std::vector<std::size_t> numbers_of(std::vector<FoundPlan> const& plans) {
  std::vector<std::size_t> all(plans.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

std::vector<std::size_t> ends_of_families(std::vector<FoundPlan> const& front) {
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < front.size(); ++i) {
    auto const is_kin = [&](FoundPlan const& other) {
      return are_one_family(other.config, front[i].config);
    };
    auto const at = front.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::none_of(front.begin(), at, is_kin) || std::none_of(at + 1, front.end(), is_kin)) {
      ends.push_back(i);
    }
  }
  return ends;
}

}  // namespace stagecraft
