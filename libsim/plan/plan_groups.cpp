#include "libsim/plan/plan_groups.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include "libsim/model/block_program.hpp"
#include "libsim/plan/pipeline_schedule.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view tensor_axis = "tensor";
constexpr std::string_view data_axis = "data";

RankGrid grid_of(ParallelLayout const& layout) {
  std::vector<GridAxis> axes{
      {tensor_axis, layout.tensor}, {data_axis, layout.data}, {pipeline_axis, layout.pipeline}};
  return RankGrid{IdVector<AxisId, GridAxis>{std::move(axes)}};
}

}  // namespace

PlanGroups make_groups(TrainingConfig const& config) {
  RankGrid const grid = grid_of(config.parallel);
  AxisSelection const tensor = whole_axis(grid, grid.axis(tensor_axis));
  AxisSelection const data = whole_axis(grid, grid.axis(data_axis));
  AxisSelection const stages = whole_axis(grid, grid.pipeline());
  PlanGroups made{.groups = RankGroups{grid}, .roles = {}};
  auto const add = [&](std::string_view name, std::vector<GroupLevel> levels,
                       Stream stream = Stream::data_parallel) {
    return made.groups.add({name, GridId{0}, std::move(levels), stream});
  };
  GroupRoles& roles = made.roles;
  // Collectives of the ranks that share layers run beside those of the gradients.
  roles.tensor = add("tensor group", {{tensor}}, Stream::tensor_parallel);
  if (int const replicas = kv_replicas(config.model, config.parallel.tensor); replicas > 1) {
    roles.kv_replicas = add("group of key and value heads", {{runs_of_axis(tensor.axis, replicas)}},
                            Stream::tensor_parallel);
  }
  roles.gradients = add("data group", {{data}});
  Placement const placement = placement_of(config);
  int const first = placement.place(0).stage;
  int const last = placement.place(placement.virtual_stages() - 1).stage;
  if (config.model.tied_embeddings && first != last) {
    roles.embedding = add("embedding group", {{positions_of_axis(stages.axis, {first, last})}});
  }
  // These groups sum scalars, which cost latencies only: first inside the nodes, then between them.
  roles.model = add("model group", {{tensor}, {stages}});
  roles.job = add("job", {{tensor}, {data, stages}});
  return made;
}

RankPlace place_of(RankGroups const& groups, int rank) {
  RankGrid const& grid = groups.grid();
  return {.tensor = grid.position(rank, grid.axis(tensor_axis)),
          .data = grid.position(rank, grid.axis(data_axis)),
          .pipeline = groups.stage_of(rank)};
}

}  // namespace stagecraft
