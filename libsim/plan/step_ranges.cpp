#include "libsim/plan/step_ranges.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "libsim/plan/plan_programs.hpp"

namespace stagecraft {
namespace {

/// Appends elements with the same treatment, joined with a range right before them that has it too.
void append(ParameterRanges& ranges, std::int64_t first, std::int64_t count, bool decays = false) {
  if (!ranges.empty()) {
    ParameterRange& last = ranges.back();
    if (last.first + last.count == first && last.decays == decays) {
      last.count += count;
      return;
    }
  }
  ranges.push_back({.first = first, .count = count, .decays = decays});
}

/// Calls visit(segment, first element, elements) for all rows of a parameter.
template <typename Visit>
void for_segments(PlacedParameter const& placed, Visit const& visit) {
  std::int64_t const columns = placed.elements() / placed.weight->shape[0];
  std::int64_t first = placed.offset;
  for (RowSegment const& segment : placed.parameter->segments) {
    visit(segment, first, segment.rows * columns);
    first += segment.rows * columns;
  }
}

/// The axes on which ranks of a stage hold the same parameters and optimizer state, for a norm that
/// is summed over all ranks.
std::vector<AxisShare> replicas_of(TrainingPlan const& plan, Parameter const& parameter) {
  RankGroup const& holders = plan.groups[plan.holders_of(parameter)];
  RankGrid const& grid = plan.groups.grid(holders.grid);
  std::vector<AxisShare> shares;
  for (AxisSelection const& selection : holders.levels.front()) {
    if (selection.axis == grid.pipeline()) continue;
    GridAxis const& axis = grid.axes()[selection.axis];
    shares.push_back({.axis = axis.name, .replicas = axis.size});
  }
  return shares;
}

/// Whether another stage has all of the parameter's gradient as well, and counts it. Both holders
/// of a tied embedding have it, and the first stage counts it. Without sharded optimizer state,
/// both copies of the model have it, and the first copy counts it.
bool is_counted_elsewhere(TrainingPlan const& plan, PlacedParameter const& placed, StageId stage) {
  if (plan.roles.embedding && placed.parameter->tied_embedding && stage != StageId{0}) return true;
  if (plan.config.sharding.shares_optimizer()) return false;
  ChunkProgram const& chunk = plan.programs.chunks[static_cast<std::size_t>(placed.chunk)];
  return plan.placement.copy_of(plan.placement.virtual_stage({stage, chunk.chunk})) > 0;
}

ParameterRanges in_8_bits(std::vector<PlacedParameter> const& layout, bool is_quantised) {
  ParameterRanges ranges;
  for (PlacedParameter const& placed : layout) {
    if (placed.is_quantised == is_quantised) append(ranges, placed.offset, placed.elements());
  }
  return ranges;
}

/// For each group that holds parameters, the ranges of which its ranks keep shards.
std::vector<GatheredRanges> gathered_ranges(TrainingPlan const& plan,
                                            StagePlan const& stage,
                                            std::vector<PlacedParameter> const& layout) {
  bool const has_low = plan.shape.quantisation.replaces_weights;
  std::vector<GatheredRanges> gathered;
  for (GroupId const group : plan.gradient_groups()) {
    ParameterRanges runs;
    ParameterRanges low;
    GatheredRanges all{.group = group};
    for (ShardedRun const& run : stage.sharded_runs) {
      if (run.holders != group || run.shards == 1) continue;
      if (!has_low) runs.push_back({run.first, run.count});
      for (PlacedParameter const& one : layout) {
        if (one.offset < run.first || one.offset >= run.first + run.count) continue;
        bool const is_low = has_low && one.is_quantised;
        ++(is_low ? all.low_parameters : all.parameters);
        if (has_low) append(is_low ? low : runs, one.offset, one.elements());
      }
    }
    all.ranges = SharedRanges{std::move(runs)};
    all.low = SharedRanges{std::move(low)};
    gathered.push_back(std::move(all));
  }
  return gathered;
}

}  // namespace

std::int64_t elements_of(ParameterRanges const& ranges) {
  std::int64_t sum = 0;
  for (ParameterRange const& range : ranges) sum += range.count;
  return sum;
}

ParameterRanges summed_over(std::vector<PlacedParameter> const& layout, GroupId group) {
  ParameterRanges ranges;
  for (PlacedParameter const& placed : layout) {
    for_segments(placed, [&](RowSegment const& segment, std::int64_t first, std::int64_t count) {
      if (segment.gradient_sum == group) append(ranges, first, count);
    });
  }
  return ranges;
}

ParameterRanges tied_embedding(std::vector<PlacedParameter> const& layout) {
  ParameterRanges ranges;
  for (PlacedParameter const& placed : layout) {
    if (placed.parameter->tied_embedding) append(ranges, placed.offset, placed.elements());
  }
  return ranges;
}

bool sums_norm_over_job(TrainingPlan const& plan) {
  return plan.config.sharding.shares_optimizer() || plan.gradient_groups().size() > 1;
}

ParameterRanges rows_with_holders(TrainingPlan const& plan,
                                  std::vector<PlacedParameter> const& layout,
                                  StageId stage) {
  bool const counts_replicas = !plan.config.sharding.shares_optimizer() && sums_norm_over_job(plan);
  ParameterRanges ranges;
  for (PlacedParameter const& placed : layout) {
    if (is_counted_elsewhere(plan, placed, stage)) continue;
    for_segments(placed, [&](RowSegment const& segment, std::int64_t first, std::int64_t count) {
      bool const has_replicas =
          std::any_of(segment.shares.begin(), segment.shares.end(),
                      [](AxisShare const& share) { return share.replicas > 1; });
      ranges.push_back({.first = first,
                        .count = count,
                        .shares = has_replicas ? segment.shares : std::vector<AxisShare>{}});
      if (counts_replicas) {
        for (AxisShare const& share : replicas_of(plan, *placed.parameter)) {
          ranges.back().shares.push_back(share);
        }
      }
    });
  }
  return ranges;
}

StageRanges stage_ranges(TrainingPlan const& plan, StagePlan const& stage) {
  std::vector<PlacedParameter> const layout = parameter_layout(plan, stage);
  GroupRoles const& roles = plan.roles;
  StageRanges ranges;
  ranges.norm_gradients = SharedRanges{summed_over(layout, roles.tensor)};
  if (roles.kv_replicas) {
    ranges.kv_gradients = SharedRanges{summed_over(layout, *roles.kv_replicas)};
  }
  ranges.embedding = SharedRanges{tied_embedding(layout)};
  ranges.counted = SharedRanges{rows_with_holders(plan, layout, stage.stage)};
  ranges.decayed = SharedRanges{with_decay(layout)};
  if (plan.shape.quantisation.replaces_weights) {
    ranges.low = SharedRanges{in_8_bits(layout, true)};
    ranges.high = SharedRanges{in_8_bits(layout, false)};
  }
  ranges.gathered = gathered_ranges(plan, stage, layout);
  return ranges;
}

bool have_equal_ranges(TrainingPlan const& plan, StagePlan const& a, StagePlan const& b) {
  // The first stage counts a tied embedding that another one holds too.
  bool const is_one_first = a.stage == StageId{0} || b.stage == StageId{0};
  if (is_one_first || !have_equal_chunks(plan, a, b)) return false;
  std::vector<ChunkId> const chunks = chunks_in_model_order(plan, a);
  if (chunks != chunks_in_model_order(plan, b)) return false;
  auto const copy_of = [&](StagePlan const& stage, ChunkId chunk) {
    return plan.placement.copy_of(plan.placement.virtual_stage({stage.stage, chunk}));
  };
  return std::ranges::all_of(chunks,
                             [&](ChunkId chunk) { return copy_of(a, chunk) == copy_of(b, chunk); });
}

ParameterRanges with_decay(std::vector<PlacedParameter> const& layout) {
  ParameterRanges ranges;
  for (PlacedParameter const& placed : layout) {
    append(ranges, placed.offset, placed.elements(), placed.weight->shape.rank() > 1);
  }
  return ranges;
}

}  // namespace stagecraft
