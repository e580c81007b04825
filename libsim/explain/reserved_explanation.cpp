#include "libsim/explain/reserved_explanation.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "libsim/engine/stage_allocators.hpp"

namespace stagecraft {

ReservedExplanation explain_reserved(TrainingPlan const& plan,
                                     System const& system,
                                     StageResult const& stage) {
  ReservedPeak peak;
  StageAllocators{plan, system}.reserve(StageId{stage.stage}, stage.rank(), &peak);
  ReservedExplanation result;
  result.stage = stage.stage;
  result.counted = stage.peak();
  result.request = peak.request;
  result.tensor = peak.tensor;
  result.is_in_step = peak.is_in_step;
  std::map<std::tuple<bool, bool, std::int64_t>, std::int64_t> free;
  for (MemoryBlock const& block : peak.blocks) {
    PoolUse& pool = block.is_small ? result.small : result.large;
    pool.reserved += block.size;
    result.reserved += block.size;
    if (block.is_live) {
      pool.live += block.size;
      result.requested += block.requested;
      result.rounding += block.size - block.requested;
      continue;
    }
    (block.is_split ? result.fragments : result.cached) += block.size;
    ++free[{block.is_small, block.is_split, block.size}];
  }
  for (auto const& [kind, blocks] : free) {
    auto const& [is_small, is_split, size] = kind;
    result.free.push_back(
        {.is_small = is_small, .is_split = is_split, .size = size, .blocks = blocks});
  }
  std::stable_sort(result.free.begin(), result.free.end(),
                   [](FreeSize const& a, FreeSize const& b) { return a.bytes() > b.bytes(); });
  return result;
}

}  // namespace stagecraft
