#include "libsim/plan/sharded_runs.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "libsim/plan/gradient_buckets.hpp"
#include "libsim/plan/parameter_layout.hpp"
#include "libsim/plan/units/unit_types.hpp"

namespace stagecraft {

std::vector<ShardedRun> sharded_runs(TrainingPlan const& plan, StagePlan const& stage) {
  TrainingConfig const& config = plan.config;
  bool const is_sharded = config.sharding.shares_optimizer();
  if (!is_sharded && plan.gradient_groups().size() == 1) {
    return {{.first = 0, .count = stage.parameters, .holders = plan.roles.gradients}};
  }
  ShardingTraits const& kind = config.sharding.traits();
  bool const has_flat_units = config.sharding.shares_parameters() && kind.is_flat;
  std::pair<std::int32_t, std::int32_t> unit{-1, -1};  // chunk and block
  std::vector<ShardedRun> runs;
  std::ptrdiff_t first_of_unit = 0;  // index into runs
  bool is_cut = true;                // the next parameter begins a run
  std::int32_t bucket_end = 0;
  std::int32_t chunk = -1;
  std::vector<GradientBucket> buckets;
  for (PlacedParameter const& placed : parameter_layout(plan, stage)) {
    if (is_sharded && overlaps_gradients(config)) {
      if (placed.chunk != chunk) {
        chunk = placed.chunk;
        buckets = gradient_buckets(plan, chunk);
        bucket_end = 0;
      }
      if (placed.block >= bucket_end) {
        auto const bucket = std::find_if(buckets.begin(), buckets.end(), [&](auto const& one) {
          return placed.block < one.first_block + one.block_count &&
                 placed.block >= one.first_block;
        });
        bucket_end = bucket->first_block + bucket->block_count;
        is_cut = true;
      }
    }
    if (config.sharding.shares_parameters()) {
      // A flat unit is cut as a whole.
      bool const begins = placed.chunk != unit.first || placed.block != unit.second;
      is_cut = is_cut || !kind.is_flat || begins;
      unit = {placed.chunk, placed.block};
      if (begins) first_of_unit = std::ssize(runs);
    }
    bool const is_held_twice = placed.parameter->tied_embedding && config.parallel.pipeline > 1;
    GroupId const holders = plan.holders_of(*placed.parameter);
    bool const is_of_own = kind.splits_experts && holders != plan.roles.gradients;
    GroupId const sharers = is_of_own ? holders : plan.roles.unit.value_or(holders);
    // Parameters before and after experts are one part of a flat unit, as parts_of() has it.
    auto const known =
        std::find_if(has_flat_units ? runs.begin() + first_of_unit : runs.end(), runs.end(),
                     [&](ShardedRun const& run) { return run.holders == holders; });
    bool const joins = known != runs.end();
    if (!joins && (is_cut || is_held_twice || runs.back().holders != holders)) {
      runs.push_back({.first = placed.offset,
                      .shards = is_sharded ? plan.groups.members(sharers) : 1,
                      .holders = holders,
                      .row = kind.alignment});
      if (config.sharding.shares_parameters() && !kind.is_flat && !kind.cuts_rows) {
        runs.back().row = placed.elements() / placed.weight->shape[0];
      }
    }
    ShardedRun& run = joins ? *known : runs.back();
    run.count += placed.elements();
    if (kind.joins_rows) run.row = std::lcm(run.row, row_of(placed.weight->shape));
    is_cut = is_held_twice;
  }
  return runs;
}

std::int64_t optimizer_shard(StagePlan const& stage) {
  std::int64_t elements = 0;
  for (ShardedRun const& run : stage.sharded_runs) elements += run.shard();
  return elements;
}

}  // namespace stagecraft
