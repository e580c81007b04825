#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "libsim/program/op.hpp"
#include "libsim/ranks/rank_grid.hpp"
#include "libsim/units/ids.hpp"

namespace stagecraft {

/// Which positions of one axis communicate with each other.
struct AxisSelection {
  AxisId axis{};
  /// The number of neighbouring positions that form a group; groups are aligned to it.
  int run = 1;
  /// If not empty, only the ranks at these positions take part, in one group.
  std::vector<int> positions;
  /// Each position forms a group with the one that is as far from the other end of the axis.
  bool mirrored = false;

  friend bool operator==(AxisSelection const&, AxisSelection const&) = default;
};

AxisSelection whole_axis(RankGrid const& grid, AxisId axis);
/// Pre: `run` divides the size of the axis.
AxisSelection runs_of_axis(AxisId axis, int run);
/// Positions may come in any order; duplicates count once.
AxisSelection positions_of_axis(AxisId axis, std::vector<int> positions);

/// Pre: the size of the axis is even.
AxisSelection mirrored_axis(AxisId axis);

/// The axes that one level of a group joins. A collective over several levels runs one level after
/// the other, for example inside a node and then between nodes, and its cost is the sum of theirs.
using GroupLevel = std::vector<AxisSelection>;

/// The names of what a group runs for the parameters that all its members hold; literals.
struct HolderCollectives {
  std::string_view all_reduce;      ///< of gradients
  std::string_view reduce_scatter;  ///< of gradients, with sharded optimizer state
  std::string_view all_gather;      ///< of parameters, likewise
  std::string_view gather_low;      ///< of those that are kept quantised alone

  friend bool operator==(HolderCollectives const&, HolderCollectives const&) = default;
};

/// The definition of a group of ranks. It divides the job into groups of equal size: two ranks are
/// in the same group if they have the same positions on all axes that no level joins.
struct RankGroup {
  std::string_view name;  ///< for messages and traces: "tensor group"; a literal
  GridId grid{};
  std::vector<GroupLevel> levels;
  Stream stream = Stream::data_parallel;  ///< runs the collectives of the group
  /// If the members hold the same parameters, whose gradients they sum. A parameter names such a
  /// group (ParameterTraits::holders).
  std::optional<HolderCollectives> holders{};

  friend bool operator==(RankGroup const&, RankGroup const&) = default;
};

/// How far apart the members of one level are.
struct LevelPlacement {
  int members = 1;
  int span = 0;  ///< difference between the ranks of the last and the first member
};

/// One rank's place in its group.
struct GroupMembership {
  std::vector<RankId> members;  ///< ascending; tensors are summed and gathered in this order
  int member = 0;               ///< index of the rank itself in `members`

  int size() const { return static_cast<int>(members.size()); }
};

/// The ranks of a job and all groups in which they communicate: the one source of this for costs,
/// communicators, traces and exporters.
class RankGroups {
 public:
  /// A job of one rank, without groups.
  RankGroups();
  explicit RankGroups(RankGrid grid);

  /// Adds another numbering of the same ranks, for groups over other axes.
  /// \throws std::invalid_argument  unless it places every rank on the same stage.
  GridId add_grid(RankGrid grid);
  /// \throws std::invalid_argument  if an axis is joined twice or a selection does not fit its axis.
  GroupId add(RankGroup group);

  int ranks() const { return grid().ranks(); }
  int stages() const { return grid().size(grid().pipeline()); }
  int ranks_per_stage() const { return grid().stride(grid().pipeline()); }
  IdRange<RankId> rank_ids() const { return IdRange<RankId>{ranks()}; }
  IdRange<StageId> stage_ids() const { return IdRange<StageId>{stages()}; }
  StageId stage_of(RankId rank) const { return StageId{grid().position(rank, grid().pipeline())}; }
  /// The counterpart of `rank` on `stage`, with which it exchanges messages.
  RankId at_stage(RankId rank, StageId stage) const {
    return grid().moved(rank, grid().pipeline(), stage.value());
  }
  RankGrid const& grid(GridId id = GridId{0}) const { return grids_[id]; }
  IdVector<GridId, RankGrid> const& grids() const { return grids_; }

  int size() const { return static_cast<int>(groups_.size()); }
  std::vector<GroupId> ids() const;
  RankGroup const& operator[](GroupId id) const { return groups_.at(id).definition; }

  /// Returns nullopt if the rank takes no part. Pre: 0 <= rank < ranks().
  std::optional<GroupMembership> membership(GroupId id, RankId rank) const;
  /// The number of members of each group.
  int members(GroupId id) const;
  std::vector<LevelPlacement> const& placement(GroupId id) const {
    return groups_.at(id).placement;
  }

  /// Whether the members are on several stages, which then take part in a collective together.
  bool joins_stages(GroupId id) const { return !groups_.at(id).stages.empty(); }
  /// The stages of the group that `stage` is in, itself included, ascending; empty if it takes no
  /// part.
  /// Pre: joins_stages(id).
  std::span<StageId const> stages(GroupId id, StageId stage) const;

 private:
  struct Group {
    RankGroup definition;
    std::vector<LevelPlacement> placement;
    /// The positions on the pipeline axis that take part, group after group of equal size.
    std::vector<StageId> stages;
    int stages_together = 0;
    /// Where the group of each stage begins in `stages`; -1 if the stage takes no part.
    IdVector<StageId, int> first_of_group;
  };

  IdVector<GridId, RankGrid> grids_;
  IdVector<GroupId, Group> groups_;
};

}  // namespace stagecraft
