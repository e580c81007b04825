#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
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

  /// A rank's turn in a task that waits only for the ranks before it.
  struct Turn {
    SimTime start{0};
    SimTime end{0};
    std::optional<int> next;  ///< the rank that may be waiting for this one
  };
  /// A rank comes to such a task. Returns nullopt if the rank before it has not ended its own yet.
  std::optional<Turn> follow(GroupId id, int rank, SimTime time, SimTime duration) {
    std::span<int const> const members = groups_->stages(id, rank);
    auto const own = std::find(members.begin(), members.end(), rank);
    if (ended_.empty()) ended_.resize(static_cast<std::size_t>(groups_->size()) * ranks_);
    Turn turn{.start = time, .end = {}, .next = {}};
    if (own != members.begin()) {
      std::deque<SimTime>& before = ended_[place_of(id, *(own - 1))];
      if (before.empty()) return std::nullopt;
      turn.start = std::max(time, before.front());
      before.pop_front();
    }
    turn.end = turn.start + duration;
    if (own + 1 != members.end()) {
      turn.next = *(own + 1);
      ended_[place_of(id, rank)].push_back(turn.end);
    }
    return turn;
  }

 private:
  std::size_t place_of(GroupId id, int rank) const {
    return id.index() * ranks_ + static_cast<std::size_t>(rank);
  }

  struct Arrivals {
    std::size_t count = 0;
    SimTime latest{0};
    SimTime duration{0};  ///< the longest so far
  };

  RankGroups const* groups_;
  std::size_t ranks_;
  std::vector<Arrivals> arrivals_;  ///< by group and, of the stages that meet in it, the first
  /// By group and rank: ends of its turns that the rank behind it has not taken yet.
  std::vector<std::deque<SimTime>> ended_;
};

}  // namespace stagecraft
