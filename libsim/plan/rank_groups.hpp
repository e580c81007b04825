#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "libsim/model/op.hpp"
#include "libsim/plan/rank_grid.hpp"
#include "libsim/units/ids.hpp"

namespace stagecraft {

/// Which positions of one axis communicate with each other.
struct AxisSelection {
  AxisId axis{};
  /// Aligned runs of so many neighbouring positions: each run is in a group of its own.
  int run = 1;
  /// If there are any: only ranks at these positions take part, all of them together.
  std::vector<int> positions;

  friend bool operator==(AxisSelection const&, AxisSelection const&) = default;
};

AxisSelection whole_axis(RankGrid const& grid, AxisId axis);
/// Pre: `run` divides the size of the axis.
AxisSelection runs_of_axis(AxisId axis, int run);
/// In any order; a position that is there twice counts once.
AxisSelection positions_of_axis(AxisId axis, std::vector<int> positions);

/// Axes that a group joins at once. A collective over several levels runs one level after the
/// other, for example inside a node and then between nodes, and its cost is the sum of theirs.
using GroupLevel = std::vector<AxisSelection>;

/// The definition of a group of ranks. It divides the job into groups of equal size: two ranks are
/// in one of them if they agree in the positions on all axes that no level joins.
struct RankGroup {
  std::string_view name;  ///< for messages and traces: "tensor group"; a literal
  GridId grid{};
  std::vector<GroupLevel> levels;
  Stream stream = Stream::data_parallel;  ///< that a device runs its collectives on

  friend bool operator==(RankGroup const&, RankGroup const&) = default;
};

/// Where the members of one level are, as far as their distances matter.
struct LevelPlacement {
  int members = 1;
  int span = 0;  ///< from the first member's rank to the last's
};

/// One rank's place in its group.
struct GroupMembership {
  std::vector<int> members;  ///< ranks, ascending: the order in which tensors are summed, gathered
  int member = 0;            ///< index of the rank itself

  int size() const { return static_cast<int>(members.size()); }
};

/// The ranks of a job and all groups in which they communicate. Everybody who has to know who
/// communicates with whom asks here: costs, communicators, traces, exporters.
class RankGroups {
 public:
  /// A job of one rank, without groups.
  RankGroups();
  explicit RankGroups(RankGrid grid);

  /// Another numbering of the same ranks, for groups that other axes are made from.
  /// \throws std::invalid_argument  unless it places every rank on the same stage.
  GridId add_grid(RankGrid grid);
  /// \throws std::invalid_argument  if an axis is joined twice or a selection does not fit its axis.
  GroupId add(RankGroup group);

  int ranks() const { return grid().ranks(); }
  int stages() const { return grid().size(grid().pipeline()); }
  int ranks_per_stage() const { return grid().stride(grid().pipeline()); }
  int stage_of(int rank) const { return grid().position(rank, grid().pipeline()); }
  /// The rank that does on `stage` what `rank` does on its own: to whom its messages go.
  int at_stage(int rank, int stage) const { return grid().moved(rank, grid().pipeline(), stage); }
  RankGrid const& grid(GridId id = GridId{0}) const { return grids_[id]; }
  IdVector<GridId, RankGrid> const& grids() const { return grids_; }

  int size() const { return static_cast<int>(groups_.size()); }
  std::vector<GroupId> ids() const;
  RankGroup const& operator[](GroupId id) const { return groups_.at(id).definition; }

  /// Nothing if the rank takes no part. Pre: 0 <= rank < ranks().
  std::optional<GroupMembership> membership(GroupId id, int rank) const;
  /// Members of each of its groups.
  int members(GroupId id) const;
  std::vector<LevelPlacement> const& placement(GroupId id) const {
    return groups_.at(id).placement;
  }

  /// Whether its members are on several stages, so that these stages meet in a collective.
  bool joins_stages(GroupId id) const { return !groups_.at(id).stages.empty(); }
  /// Stages that `stage` meets in the group, itself included, ascending; none if it takes no part.
  /// Pre: joins_stages(id).
  std::span<int const> stages(GroupId id, int stage) const;

 private:
  struct Group {
    RankGroup definition;
    std::vector<LevelPlacement> placement;
    /// On the pipeline axis: positions that take part, and how many of them in a row are together.
    std::vector<int> stages;
    int stages_together = 0;
  };

  IdVector<GridId, RankGrid> grids_;
  IdVector<GroupId, Group> groups_;
};

}  // namespace stagecraft
