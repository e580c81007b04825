#include "libsim/engine/work_prices.hpp"

#include <algorithm>
#include <cstddef>

#include "libsim/engine/rank_memory.hpp"

namespace stagecraft {

WorkPrices::WorkPrices(TrainingPlan const& plan, CostModel const& cost)
    : plan_{plan}, cost_{cost}, blocks_{profile_blocks(plan, cost)}, whole_(plan.chunks.size()) {
  same_as_.reserve(plan.chunks.size());
  std::vector<std::int32_t> distinct;
  for (std::size_t i = 0; i < plan.chunks.size(); ++i) {
    auto const same = std::find_if(distinct.begin(), distinct.end(), [&](std::int32_t other) {
      return plan.chunks[static_cast<std::size_t>(other)].blocks == plan.chunks[i].blocks;
    });
    bool const is_new = same == distinct.end();
    same_as_.push_back(is_new ? static_cast<std::int32_t>(i) : *same);
    if (is_new) distinct.push_back(same_as_.back());
  }
}

WorkPrice const& WorkPrices::of(RankPlan const& rank, Work const& work) {
  if (work.kind == Work::Kind::step) return *make(rank, work);
  auto const program = static_cast<std::size_t>(work.program);
  auto const all = static_cast<std::int32_t>(plan_.chunks[program].blocks.size());
  if (work.block_count != all) return *make(rank, work);
  std::size_t const pass = work.kind == Work::Kind::forward ? 0 : 1;
  WorkPrice const*& known = whole_[static_cast<std::size_t>(same_as_[program])][pass];
  if (known == nullptr) known = make(rank, work);
  return *known;
}

WorkPrice const* WorkPrices::make(RankPlan const& rank, Work const& work) {
  WorkProfile const profile = profile_work(plan_, rank, work, blocks_, cost_);
  made_.push_back(
      {.duration = profile.duration, .memory = MemoryMove{work_memory(plan_, work, profile)}});
  return &made_.back();
}

}  // namespace stagecraft
