#pragma once

#include <vector>

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// A plan on two ranks for each rank that it had: an axis that the product does not know,
/// between tensor and data, with a group of its own.
struct OtherPlan {
  TrainingPlan plan;
  GroupId other{};
};

/// The groups of a plan over the axes that it had and another one. Whoever joined the replicas
/// joins the ranks of the other axis too.
inline OtherPlan with_other_axis(TrainingPlan plan) {
  RankGrid const before = plan.groups.grid();
  IdVector<AxisId, GridAxis> axes;
  for (GridAxis const& axis : before.axes()) {
    axes.push_back(axis);
    if (axis.name == "tensor") axes.push_back({"other", 2});
  }
  RankGrid const grid{axes};
  AxisSelection const added = whole_axis(grid, grid.axis("other"));
  RankGroups groups{grid};
  for (GroupId const id : plan.groups.ids()) {
    RankGroup group = plan.groups[id];
    for (GroupLevel& level : group.levels) {
      bool joins_replicas = false;
      for (AxisSelection& selection : level) {
        std::string_view const name = before.axes()[selection.axis].name;
        joins_replicas = joins_replicas || name == "data";
        selection.axis = grid.axis(name);
      }
      if (joins_replicas) level.push_back(added);
    }
    groups.add(group);
  }
  OtherPlan made{.plan = std::move(plan)};
  made.other = groups.add({"other group", GridId{0}, {{added}}, Stream::tensor_parallel});
  made.plan.groups = std::move(groups);
  return made;
}

}  // namespace stagecraft
