#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "libsim/plan/rank_groups.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Ranks that wait for each other in tasks of their groups, as play() has them. One rank stands for
/// all of its stage.
class GroupRendezvous {
 public:
  /// `groups` must outlive the object; null if no task has a group.
  GroupRendezvous(RankGroups const* groups, std::size_t ranks) : groups_{groups}, ranks_{ranks} {
    if (groups != nullptr) arrivals_.resize(static_cast<std::size_t>(groups->size()) * ranks);
  }

  /// A group task that can run.
  struct Task {
    std::span<int const> members;
    SimTime start{0};
    SimTime end{0};
  };
  /// A rank arrives with a task of this duration. Returns the task of them all if the rank is the
  /// last of them, else nullopt.
  std::optional<Task> join(GroupId id, int rank, SimTime time, SimTime duration) {
    std::span<int const> const members = groups_->stages(id, rank);
    Arrivals& arrivals = arrivals_[id.index() * ranks_ + static_cast<std::size_t>(members.front())];
    arrivals.latest = std::max(arrivals.latest, time);
    arrivals.duration = std::max(arrivals.duration, duration);
    if (++arrivals.count < members.size()) return std::nullopt;
    Task const task{members, arrivals.latest, arrivals.latest + arrivals.duration};
    arrivals = Arrivals{};
    return task;
  }

 private:
  struct Arrivals {
    std::size_t count = 0;
    SimTime latest{0};
    SimTime duration{0};  ///< the longest so far
  };

  RankGroups const* groups_;
  std::size_t ranks_;
  std::vector<Arrivals> arrivals_;  ///< by group and, of the stages that meet in it, the first
};

}  // namespace stagecraft
