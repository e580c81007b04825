#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "libsim/ranks/rank_groups.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Stages that wait for each other in tasks of their groups, as play() has them. All ranks of a
/// stage do the same.
class GroupRendezvous {
 public:
  /// `groups` must outlive the object; null if no task has a group.
  GroupRendezvous(RankGroups const* groups, std::size_t stages) : groups_{groups}, stages_{stages} {
    if (groups != nullptr) arrivals_.resize(static_cast<std::size_t>(groups->size()) * stages);
  }

  /// A group task that can run.
  struct Task {
    std::span<StageId const> members;
    SimTime start{0};
    SimTime end{0};
  };
  /// A stage arrives with a task of this duration. Returns the task of all stages if it is the last
  /// of them, else nullopt.
  std::optional<Task> join(GroupId id, StageId stage, SimTime time, SimTime duration) {
    std::span<StageId const> const members = groups_->stages(id, stage);
    Arrivals& arrivals = arrivals_[id.index() * stages_ + members.front().index()];
    arrivals.latest = std::max(arrivals.latest, time);
    arrivals.duration = std::max(arrivals.duration, duration);
    if (++arrivals.count < members.size()) return std::nullopt;
    Task const task{members, arrivals.latest, arrivals.latest + arrivals.duration};
    arrivals = Arrivals{};
    return task;
  }

  /// A stage's turn in a task that waits only for the stages before it.
  struct Turn {
    SimTime start{0};
    SimTime end{0};
    std::optional<StageId> next;  ///< the stage that may be waiting for this one
  };
  /// A stage comes to such a task. Returns nullopt if the stage before it has not ended its own
  /// yet.
  std::optional<Turn> follow(GroupId id, StageId stage, SimTime time, SimTime duration) {
    std::span<StageId const> const members = groups_->stages(id, stage);
    auto const own = std::find(members.begin(), members.end(), stage);
    if (ended_.empty()) ended_.resize(static_cast<std::size_t>(groups_->size()) * stages_);
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
      ended_[place_of(id, stage)].push_back(turn.end);
    }
    return turn;
  }

 private:
  std::size_t place_of(GroupId id, StageId stage) const {
    return id.index() * stages_ + stage.index();
  }

  struct Arrivals {
    std::size_t count = 0;
    SimTime latest{0};
    SimTime duration{0};  ///< longest duration so far
  };

  RankGroups const* groups_;
  std::size_t stages_;
  std::vector<Arrivals> arrivals_;  ///< by group and by the first of the stages that meet in it
  /// By group and stage: the ends of its turns that the next stage has not yet waited for.
  std::vector<std::deque<SimTime>> ended_;
};

}  // namespace stagecraft
