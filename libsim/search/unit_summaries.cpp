#include "libsim/search/unit_summaries.hpp"

#include <algorithm>
#include <utility>

#include "libsim/engine/player/block_times.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/program/memory_profile.hpp"

namespace stagecraft {
namespace {

constexpr std::int64_t most_that_differ = 3;  // microbatches: see unit_passes()

}  // namespace

UnitSummaries::UnitSummaries(SearchRequest const& request,
                             Arrangement const& arrangement,
                             Sharding sharding)
    : request_{request},
      config_{make_config(request, arrangement, {RecomputePolicy{}}, sharding)},
      microbatches_{microbatches(config_)} {
  config_.batch.global =
      std::min(microbatches_, most_that_differ) * config_.parallel.data * config_.batch.micro;
}

PassSummary UnitSummaries::iteration(PolicyCode policy) {
  bool const is_part = policy.kind == RecomputeKind::block;
  ByMicrobatch const& checkpointed =
      passes_of(is_part ? PolicyCode{RecomputeKind::uniform, 1} : policy);
  ByMicrobatch const& stored = is_part ? passes_of({RecomputeKind::none, 0}) : checkpointed;
  // The first layer follows the embedding, and inputs that each microbatch may have.
  std::size_t const before =
      stored.front().size() - 1 - static_cast<std::size_t>(config_.model.layers);
  std::size_t const end = before + (is_part ? static_cast<std::size_t>(policy.layers) : 0);
  PassSummary sum;
  for (std::size_t k = 0; k < stored.size(); ++k) {
    auto const block = [&](std::size_t position) -> BlockPasses const& {
      return (position < end ? checkpointed : stored)[k][position];
    };
    std::size_t const blocks = stored[k].size();
    PassSummary microbatch;
    for (std::size_t i = 0; i < blocks; ++i) microbatch += block(i).forward;
    for (std::size_t i = blocks; i-- > 0;) microbatch += block(i).backward;
    bool const is_between = k == 1 && std::cmp_equal(stored.size(), most_that_differ);
    sum += is_between ? microbatch.repeated(microbatches_ - 2) : microbatch;
  }
  return sum;
}

UnitSummaries::ByMicrobatch const& UnitSummaries::passes_of(PolicyCode policy) {
  auto const [place, is_new] = known_.try_emplace(policy.kind);
  if (is_new) place->second = made_passes(policy);
  return place->second;
}

UnitSummaries::ByMicrobatch UnitSummaries::made_passes(PolicyCode policy) const {
  TrainingConfig config = config_;
  config.recompute = {policy_of(policy)};
  TrainingPlan const plan = make_programs(config);
  CostModel const cost{request_.system, plan};
  auto const summary = [&](BlockProgram const& block, Pass pass) {
    MemoryProfile const memory = profile_memory(block, pass);
    return PassSummary{time_pass(block, pass, cost).duration.count(), memory.net.sum(),
                       memory.peak};
  };
  std::vector<BlockPasses> blocks;
  blocks.reserve(plan.programs.blocks.size());
  for (BlockProgram const& block : plan.programs.blocks) {
    blocks.push_back({summary(block, Pass::forward), summary(block, Pass::backward)});
  }
  ByMicrobatch passes;
  for (ChunkProgram const& chunk : plan.programs.chunks) {
    std::vector<BlockPasses>& of_microbatch = passes.emplace_back();
    for (std::int32_t const block : chunk.blocks) {
      of_microbatch.push_back(blocks[static_cast<std::size_t>(block)]);
    }
  }
  return passes;
}

}  // namespace stagecraft
