#include "libsim/explain/reserved_explanation.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "libsim/engine/outside_memory.hpp"
#include "libsim/engine/stack_memory.hpp"
#include "libsim/plan/stage_reservation.hpp"

namespace stagecraft {

ReservedExplanation explain_reserved(TrainingPlan const& plan,
                                     System const& system,
                                     std::size_t stage,
                                     std::int64_t counted) {
  StagePlan const& of_stage = plan.stages[StageId::of_index(stage)];
  std::int64_t const capacity = system.accelerator.memory.value.count();
  ReservedPeak peak;
  reserve_stage(plan, of_stage, capacity - bytes_outside(plan, system, of_stage),
                stack_memory(plan, system), ReplayExtent::until_steady, &peak);
  ReservedExplanation result;
  result.stage = of_stage.stage.value();
  result.counted = counted;
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
