#include "libsim/ranks/rank_groups.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace stagecraft {
namespace {

RankGrid one_rank() {
  IdVector<AxisId, GridAxis> axes;
  axes.push_back({.name = pipeline_axis});
  return RankGrid{std::move(axes)};
}

/// The positions that `position` communicates with, ascending; none if it takes no part.
std::vector<int> companions(AxisSelection const& selection, int axis_size, int position) {
  if (!selection.positions.empty()) {
    bool const takes_part =
        std::binary_search(selection.positions.begin(), selection.positions.end(), position);
    return takes_part ? selection.positions : std::vector<int>{};
  }
  if (selection.mirrored) {
    int const other = axis_size - 1 - position;
    return {std::min(position, other), std::max(position, other)};
  }
  std::vector<int> positions;
  positions.reserve(static_cast<std::size_t>(selection.run));
  int const first = position / selection.run * selection.run;
  for (int i = 0; i < selection.run; ++i) positions.push_back(first + i);
  return positions;
}

int count(AxisSelection const& selection) {
  if (selection.mirrored) return 2;
  return selection.positions.empty() ? selection.run : static_cast<int>(selection.positions.size());
}

/// The distance from the first to the last position that communicates; of groups that differ in it,
/// of the widest.
int extent(AxisSelection const& selection, int axis_size) {
  if (selection.mirrored) return axis_size - 1;
  return selection.positions.empty() ? selection.run - 1
                                     : selection.positions.back() - selection.positions.front();
}

void check_selection(AxisSelection const& selection, RankGrid const& grid, RankGroup const& group) {
  GridAxis const& axis = grid.axes().at(selection.axis);
  bool const fits =
      selection.mirrored ? axis.size % 2 == 0
      : selection.positions.empty()
          ? selection.run > 0 && axis.size % selection.run == 0
          : selection.positions.front() >= 0 && selection.positions.back() < axis.size;
  if (fits) return;
  throw std::invalid_argument{std::string{group.name} + ": a selection does not fit the axis '" +
                              std::string{axis.name} + "' of size " + std::to_string(axis.size)};
}

}  // namespace

AxisSelection whole_axis(RankGrid const& grid, AxisId axis) {
  return runs_of_axis(axis, grid.size(axis));
}

AxisSelection runs_of_axis(AxisId axis, int run) {
  return {.axis = axis, .run = run, .positions = {}};
}

AxisSelection positions_of_axis(AxisId axis, std::vector<int> positions) {
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  return {.axis = axis, .run = 1, .positions = std::move(positions)};
}

AxisSelection mirrored_axis(AxisId axis) {
  return {.axis = axis, .run = 1, .positions = {}, .mirrored = true};
}

RankGroups::RankGroups() : RankGroups{one_rank()} {}

RankGroups::RankGroups(RankGrid grid) { grids_.push_back(std::move(grid)); }

GridId RankGroups::add_grid(RankGrid grid) {
  bool const is_same_job = grid.ranks() == ranks() && grid.size(grid.pipeline()) == stages();
  if (!is_same_job) {
    throw std::invalid_argument{
        "grid of ranks: it places a rank on another stage than the first grid"};
  }
  return grids_.push_back(std::move(grid));
}

GroupId RankGroups::add(RankGroup group) {
  RankGrid const& grid = grids_.at(group.grid);
  Group made;
  IdVector<AxisId, bool> is_joined{grid.axes().size()};
  for (GroupLevel const& level : group.levels) {
    LevelPlacement& placement = made.placement.emplace_back();
    for (AxisSelection const& selection : level) {
      check_selection(selection, grid, group);
      if (is_joined[selection.axis]) {
        throw std::invalid_argument{std::string{group.name} + ": an axis is joined twice"};
      }
      is_joined[selection.axis] = true;
      placement.members *= count(selection);
      int const size = grid.size(selection.axis);
      placement.span += grid.stride(selection.axis) * extent(selection, size);
      if (selection.axis != grid.pipeline()) continue;
      made.stages_together = count(selection);
      made.first_of_group =
          IdVector<StageId, int>{std::vector<int>(static_cast<std::size_t>(stages()), -1)};
      for (StageId const stage : stage_ids()) {
        if (made.first_of_group[stage] >= 0) continue;
        std::vector<int> const together = companions(selection, size, stage.value());
        auto const first = static_cast<int>(made.stages.size());
        for (int const member : together) {
          made.first_of_group[StageId{member}] = first;
          made.stages.emplace_back(member);
        }
      }
    }
  }
  made.definition = std::move(group);
  return groups_.push_back(std::move(made));
}

std::vector<GroupId> RankGroups::ids() const {
  std::vector<GroupId> ids;
  ids.reserve(static_cast<std::size_t>(size()));
  for (int i = 0; i < size(); ++i) ids.emplace_back(i);
  return ids;
}

std::optional<GroupMembership> RankGroups::membership(GroupId id, RankId rank) const {
  RankGroup const& group = groups_.at(id).definition;
  RankGrid const& grid = grids_[group.grid];
  GroupMembership membership{.members = {rank}};
  for (GroupLevel const& level : group.levels) {
    for (AxisSelection const& selection : level) {
      // No level joins an axis twice: on this one all members so far have the rank's position.
      int const own = grid.position(rank, selection.axis);
      std::vector<int> const positions = companions(selection, grid.size(selection.axis), own);
      std::vector<RankId> joined;
      joined.reserve(positions.size() * membership.members.size());
      for (int const position : positions) {
        int const distance = (position - own) * grid.stride(selection.axis);
        for (RankId const member : membership.members) {
          joined.emplace_back(member.value() + distance);
        }
      }
      membership.members = std::move(joined);
    }
  }
  std::vector<RankId>& members = membership.members;
  if (members.empty()) return std::nullopt;
  if (!std::is_sorted(members.begin(), members.end())) std::sort(members.begin(), members.end());
  auto const own = std::lower_bound(members.begin(), members.end(), rank);
  membership.member = static_cast<int>(own - members.begin());
  return membership;
}

int RankGroups::members(GroupId id) const {
  int members = 1;
  for (LevelPlacement const& level : placement(id)) members *= level.members;
  return members;
}

std::span<StageId const> RankGroups::stages(GroupId id, StageId stage) const {
  Group const& group = groups_.at(id);
  int const first = group.first_of_group.empty() ? -1 : group.first_of_group[stage];
  if (first < 0) return {};
  return std::span{group.stages}.subspan(static_cast<std::size_t>(first),
                                         static_cast<std::size_t>(group.stages_together));
}

}  // namespace stagecraft
