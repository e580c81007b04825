#include "libsim/search/ordered_plans.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/search/candidate_source.hpp"
#include "libsim/search/search_space.hpp"
#include "libsim/training/training_config_checks.hpp"

namespace stagecraft {
namespace {

constexpr std::int64_t most_block_sizes = 6;

/// The numbers of chunks per stage with which a kind is tried.
std::vector<int> chunk_counts(ScheduleKind kind) {
  int const fixed = chunks_of({.kind = kind});
  return fixed > 0 ? std::vector{fixed} : std::vector{2, 3, 4};
}

/// Whether every stage of the layout can be cut into chunks of equal size.
bool divides(LayerShares const& shares, int stages, int chunks) {
  for (StageId const stage : IdRange<StageId>{stages}) {
    if (shares.of(stage, stages) % chunks != 0) return false;
  }
  return true;
}

std::vector<PolicyCode> policies_of(SearchRequest const& request, std::int64_t chunk_layers) {
  std::vector<PolicyCode> codes{
      {RecomputeKind::none, 0}, {RecomputeKind::selective, 0}, {RecomputeKind::uniform, 1}};
  std::int64_t const sizes = std::min(most_block_sizes, chunk_layers - 1);
  for (std::int64_t i = 1; i <= sizes; ++i) {
    codes.push_back(
        {RecomputeKind::block, static_cast<std::int32_t>(i * chunk_layers / (sizes + 1))});
  }
  std::erase_if(
      codes, [&](PolicyCode const& code) { return !allows(request.filter.recompute, code.kind); });
  return codes;
}

TrainingConfig with_order_of(TrainingConfig config, ScheduleKind kind, int chunks) {
  config.parallel.interleave = chunks;
  config.schedule.kind = kind;
  config.schedule.group = 0;
  config.schedule.p2p = P2p::overlapped;
  if (copies_of(kind) > 1) config.parallel.overlap_gradients = false;
  return config;
}

}  // namespace

bool is_tried(ScheduleKind kind) {
  return has_order(kind) && kind != ScheduleKind::order &&
         !depends_on_costs(kind, OrderVariant::fixed);
}

std::vector<TrainingConfig> ordered_runs(SearchRequest const& request,
                                         Candidates const& candidates,
                                         Candidate const& plan) {
  Arrangement const& found = candidates.arrangements[static_cast<std::size_t>(plan.arrangement)];
  std::vector<TrainingConfig> runs;
  auto const add = [&](TrainingConfig config) {
    bool const is_new = std::find(runs.begin(), runs.end(), config) == runs.end();
    bool const is_wanted = !request.is_wanted || request.is_wanted(config);
    if (is_new && is_wanted && problems_of(config).empty()) runs.push_back(std::move(config));
  };
  for (ScheduleKind const kind : request.filter.ordered) {
    for (int const chunks : chunk_counts(kind)) {
      int const stages = found.schedule.pipeline;
      int const cuts = chunks / copies_of(kind);  // of the layers of a stage
      if (!divides(found.shares, stages, cuts) || !allows(request.filter.interleave, chunks)) {
        continue;
      }
      // A window stores as many microbatches as another schedule leaves room for.
      if (plan.policy.kind != RecomputeKind::window && found.schedule.interleave == cuts) {
        add(with_order_of(config_of(request, candidates, plan), kind, chunks));
      }
      Arrangement arrangement = found;
      arrangement.schedule.interleave = cuts;
      for (PolicyCode const& code : policies_of(request, largest_chunk(arrangement))) {
        add(with_order_of(make_config(request, arrangement, {policy_of(code)}, plan.sharding), kind,
                          chunks));
      }
    }
  }
  return runs;
}

}  // namespace stagecraft
