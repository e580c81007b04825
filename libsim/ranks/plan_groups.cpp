#include "libsim/ranks/plan_groups.hpp"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/program/block_program.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/training/run_schedule.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view tensor_axis = "tensor";
constexpr std::string_view context_axis = "context";
constexpr std::string_view inner_context_axis = "inner context";
constexpr std::string_view shard_axis = "shard";  // replicas that share units, if not all do
constexpr std::string_view data_axis = "data";
constexpr std::string_view expert_tensor_axis = "expert_tensor";
constexpr std::string_view expert_axis = "expert";
constexpr std::string_view expert_data_axis = "expert_data";

/// Whether units are shared by a part of the replicas, and the others hold copies.
bool has_unit_copies(TrainingConfig const& config) {
  ParallelLayout const& layout = config.parallel;
  int const group = config.sharding.has_units() ? config.sharding.group : 0;
  return group != 0 && group < layout.context * layout.data;
}

RankGrid grid_of(TrainingConfig const& config) {
  ParallelLayout const& layout = config.parallel;
  std::vector<GridAxis> axes{{tensor_axis, layout.tensor}};
  // An axis of one rank would be in the fingerprint.
  if (layout.context_inner > 1) axes.push_back({inner_context_axis, layout.context_inner});
  if (layout.context > 1) axes.push_back({context_axis, layout.context / layout.context_inner});
  int const sharing = has_unit_copies(config) ? config.sharding.group / layout.context : 1;
  if (sharing > 1) axes.push_back({shard_axis, sharing});
  axes.push_back({data_axis, layout.data / sharing});
  axes.push_back({pipeline_axis, layout.pipeline});
  return RankGrid{IdVector<AxisId, GridAxis>{std::move(axes)}};
}

/// The axes on which ranks hold the same parameters.
GroupLevel replicas_of(RankGrid const& grid) {
  GroupLevel axes;
  for (std::string_view const name : {inner_context_axis, context_axis, shard_axis, data_axis}) {
    if (auto const axis = grid.find(name)) axes.push_back(whole_axis(grid, *axis));
  }
  return axes;
}

/// The axes of a group of ranks that hold the same parameters, `axes` among them: if there are two
/// copies of the model, both stages that have the same parts of it.
GroupLevel with_copies(GroupLevel axes, RankGrid const& grid, Placement const& placement) {
  if (placement.copies() > 1) axes.push_back(mirrored_axis(grid.pipeline()));
  return axes;
}

/// The same ranks, as the experts of a layer are split over those of a stage.
RankGrid expert_grid_of(ParallelLayout const& layout) {
  int const together = layout.expert_tensor * layout.expert;
  std::vector<GridAxis> axes{
      {expert_tensor_axis, layout.expert_tensor},
      {expert_axis, layout.expert},
      {expert_data_axis, layout.tensor * layout.context * layout.data / together},
      {pipeline_axis, layout.pipeline}};
  return RankGrid{IdVector<AxisId, GridAxis>{std::move(axes)}};
}

void add_expert_groups(PlanGroups& made, TrainingConfig const& config, Placement const& placement) {
  ParallelLayout const& layout = config.parallel;
  RankGrid const grid = expert_grid_of(layout);
  GridId const id = made.groups.add_grid(grid);
  AxisSelection const sharers = whole_axis(grid, grid.axis(expert_tensor_axis));
  AxisSelection const experts = whole_axis(grid, grid.axis(expert_axis));
  auto const add = [&](std::string_view name, GroupLevel level) {
    return made.groups.add({.name = name,
                            .grid = id,
                            .levels = {std::move(level)},
                            .stream = Stream::tensor_parallel});
  };
  GroupRoles& roles = made.roles;
  if (layout.expert > 1) {
    roles.expert = add("expert group", {experts});
  }
  if (layout.expert_tensor > 1) {
    roles.expert_tensor = add("expert tensor group", {sharers});
  }
  if (config.dispatch != Dispatch::alltoall) {
    roles.dispatch = roles.expert ? roles.expert : roles.expert_tensor;
    if (roles.expert && roles.expert_tensor) {
      roles.dispatch = add("dispatch group", {sharers, experts});
    }
  }
  GroupLevel const replicas{whole_axis(grid, grid.axis(expert_data_axis))};
  roles.expert_gradients = made.groups.add(
      {.name = "expert data group",
       .grid = id,
       .levels = {with_copies(replicas, grid, placement)},
       .stream = Stream::data_parallel,
       .holders = HolderCollectives{.all_reduce = "all_reduce_expert_gradients",
                                    .reduce_scatter = "reduce_scatter_expert_gradients",
                                    .all_gather = "all_gather_expert_parameters",
                                    .gather_low = "all_gather_expert_weights"}});
}

}  // namespace

PlanGroups make_groups(TrainingConfig const& config) {
  RankGrid const grid = grid_of(config);
  AxisSelection const tensor = whole_axis(grid, grid.axis(tensor_axis));
  GroupLevel const replicas = replicas_of(grid);
  AxisSelection const stages = whole_axis(grid, grid.pipeline());
  Placement const placement = placement_of(config);
  PlanGroups made{.groups = RankGroups{grid}, .roles = {}};
  auto const add = [&](std::string_view name, std::vector<GroupLevel> levels,
                       Stream stream = Stream::data_parallel,
                       std::optional<HolderCollectives> const& holders = {}) {
    return made.groups.add({name, GridId{0}, std::move(levels), stream, holders});
  };
  GroupRoles& roles = made.roles;
  // Collectives of the ranks that share layers run beside those of the gradients.
  roles.tensor = add("tensor group", {{tensor}}, Stream::tensor_parallel);
  if (int const copies = kv_replicas(config.model, config.parallel.tensor); copies > 1) {
    roles.kv_replicas = add("group of key and value heads", {{runs_of_axis(tensor.axis, copies)}},
                            Stream::tensor_parallel);
  }
  roles.gradients =
      add("data group", {with_copies(replicas, grid, placement)}, Stream::data_parallel,
          HolderCollectives{.all_reduce = "all_reduce_gradients",
                            .reduce_scatter = "reduce_scatter_gradients",
                            .all_gather = "all_gather_parameters",
                            .gather_low = "all_gather_weights"});
  if (config.sharding.has_units()) {
    roles.unit = roles.gradients;
    if (has_unit_copies(config)) {
      AxisSelection const copies = whole_axis(grid, grid.axis(data_axis));
      GroupLevel sharing = replicas;
      std::erase(sharing, copies);
      roles.unit = add("shard group", {std::move(sharing)}, Stream::gather);
      roles.unit_copies = add("group of copies", {{copies}}, Stream::sum_over_copies);
    }
  }
  if (auto const context = grid.find(context_axis)) {
    roles.context = add("context group", {{whole_axis(grid, *context)}}, Stream::tensor_parallel);
  }
  if (auto const inner = grid.find(inner_context_axis)) {
    roles.context_inner =
        add("inner context group", {{whole_axis(grid, *inner)}}, Stream::tensor_parallel);
  }
  StageId const first = placement.place(VirtualStageId{0}).stage;
  StageId const last = placement.place(placement.last()).stage;
  if (embeds_at_end(config.model) && !begins_model(placement, last)) {
    roles.embedding =
        add("embedding group", {{positions_of_axis(stages.axis, {first.value(), last.value()})}});
  }
  // These groups sum scalars, which cost latencies only: first inside the nodes, then between them.
  roles.model = add("model group", {{tensor}, {stages}});
  GroupLevel others = replicas;
  others.push_back(stages);
  roles.job = add("job", {{tensor}, std::move(others)});
  if (has_experts(config.model)) add_expert_groups(made, config, placement);
  if (counts_over_batch(config.model)) {
    GroupLevel ranks{tensor};
    ranks.insert(ranks.end(), replicas.begin(), replicas.end());
    roles.stage = add("stage group", {std::move(ranks)}, Stream::tensor_parallel);
  }
  return made;
}

RankPlace place_of(RankGroups const& groups, RankId rank) {
  RankGrid const& grid = groups.grid();
  auto const position = [&](std::string_view name) {
    auto const axis = grid.find(name);
    return axis ? grid.position(rank, *axis) : 0;
  };
  auto const inner = grid.find(inner_context_axis);
  int const inner_ranks = inner ? grid.size(*inner) : 1;
  auto const shard = grid.find(shard_axis);
  int const shard_ranks = shard ? grid.size(*shard) : 1;
  return {.tensor = position(tensor_axis),
          .context = position(inner_context_axis) + inner_ranks * position(context_axis),
          .data = position(shard_axis) + shard_ranks * position(data_axis),
          .stage = groups.stage_of(rank)};
}

}  // namespace stagecraft
