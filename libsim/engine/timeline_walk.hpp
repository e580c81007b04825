#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "libsim/engine/timeline.hpp"

namespace stagecraft {

/// Hears what happens on each rank, in order of time on each rank and in no particular order across
/// ranks. This one does nothing and costs nothing; another has the same members.
struct SilentObserver {
  /// Step `step` of the rank ran a task.
  void ran(int /*rank*/, int /*step*/, SimTime /*start*/, SimTime /*end*/) {}
  /// The rank's compute stream stood still at step `step` (a wait, a drain or a group task).
  void waited(int /*rank*/, int /*step*/, SimTime /*start*/, SimTime /*end*/) {}
  /// A message went from start to arrival. Told once a message, with one of its ends: entry
  /// `transfer` of the rank's transfers.
  void transferred(int /*rank*/, int /*transfer*/, SimTime /*start*/, SimTime /*end*/) {}
};

/// The state of a walk through an iteration: all there is to know to go on from here.
struct WalkState {
  /// A time that does not come: of a message or group that has not started yet.
  static constexpr SimTime never{std::numeric_limits<std::int64_t>::max()};
  static constexpr std::int32_t nothing = std::numeric_limits<std::int32_t>::max();

  struct Rank {
    std::int32_t step = 0;              ///< next step
    std::int32_t blocked_on = nothing;  ///< message without which it cannot go on
    SimTime clock{0};                   ///< of its compute stream
    SimTime data_parallel_idle{0};      ///< its data-parallel stream has no work from here on
    SimTime send_idle[2] = {};          ///< overlapped: of its send stream, by payload
    bool has_joined = false;            ///< it waits in a group
    SimTime group_start{never};         ///< of the group it waits in, once all have joined
    SimTime group_end{never};
  };
  struct Message {
    SimTime start{never};  ///< blocking: the first end's post, until the second end has posted too
    SimTime end{never};    ///< arrival
  };
  struct Group {
    std::size_t joined = 0;
    SimTime start{0};     ///< latest arrival so far
    SimTime duration{0};  ///< longest so far
  };

  std::vector<Rank> ranks;
  std::vector<Message> messages;
  std::vector<Group> groups;  ///< by group and, of the stages that meet in it, the first
};

/// \throws std::invalid_argument  where play() does.
void check_timeline_input(TimelineInput const& input);

/// Who waits for what, one line a rank that is not done.
std::string describe_deadlock(TimelineInput const& input, WalkState const& state);

/// Walks the ranks of an iteration. The input and the observer must outlive the walk.
template <P2p mode, class Observer>
class TimelineWalk {
 public:
  /// \throws std::invalid_argument  where play() does.
  TimelineWalk(TimelineInput const& input, Observer& observer)
      : input_{input}, observer_{observer}, totals_(input.ranks.size()) {
    check_timeline_input(input);
    state_.ranks.resize(input.ranks.size());
    for (std::size_t i = 0; i < input.starts.size(); ++i) {
      state_.ranks[i].clock = input.starts[i].clock;
      state_.ranks[i].data_parallel_idle = input.starts[i].data_parallel_idle;
    }
    state_.messages.resize(static_cast<std::size_t>(input.messages));
    if (input.groups != nullptr) {
      state_.groups.resize(static_cast<std::size_t>(input.groups->size()) * input.ranks.size());
    }
    ready_.reserve(input.ranks.size());
    for (RankProgram const& rank : input.ranks) {
      prices_.push_back({rank.activation, rank.gradient});
    }
  }

  /// Takes a rank as far as it can go now. Returns whether it is done.
  bool advance(int rank);

  /// Takes all ranks to their ends.
  /// \throws ScheduleDeadlock  when they cannot get there.
  Timeline finish();

  WalkState const& state() const { return state_; }

 private:
  struct Prices {
    MessagePrice of[2];  ///< by payload
  };

  void post(int rank, IssueEntry const& step, SimTime clock);
  bool wait(int rank, IssueEntry const& step, WalkState::Rank& state);
  bool meet(int rank, IssueEntry const& step, Task const& task, WalkState::Rank& state);
  void join(GroupId id, int rank, SimTime arrival, SimTime duration);
  void run(int rank, IssueEntry const& step, Task const& task, WalkState::Rank& state);
  void drain(int rank, WalkState::Rank& state);
  void wake(int rank, std::int32_t message) {
    auto& peer = state_.ranks[static_cast<std::size_t>(rank)];
    if (peer.blocked_on != message) return;
    peer.blocked_on = WalkState::nothing;
    ready_.push_back(rank);
  }

  TimelineInput const& input_;
  Observer& observer_;
  WalkState state_;
  std::vector<RankTimeline> totals_;
  std::vector<Prices> prices_;       ///< of what a rank sends
  std::vector<std::int32_t> ready_;  ///< ranks that can go on
};

/// Plays one iteration as play() does and tells an observer like SilentObserver what happens.
template <class Observer>
Timeline play(TimelineInput const& input, Observer& observer) {
  if (input.p2p == P2p::blocking) {
    return TimelineWalk<P2p::blocking, Observer>{input, observer}.finish();
  }
  return TimelineWalk<P2p::overlapped, Observer>{input, observer}.finish();
}

template <P2p mode, class Observer>
bool TimelineWalk<mode, Observer>::advance(int rank) {
  RankProgram const& program = input_.ranks[static_cast<std::size_t>(rank)];
  WalkState::Rank& state = state_.ranks[static_cast<std::size_t>(rank)];
  state.blocked_on = WalkState::nothing;
  auto const end = static_cast<std::int32_t>(program.steps.size());
  for (; state.step < end; ++state.step) {
    IssueEntry const& step = program.steps[static_cast<std::size_t>(state.step)];
    switch (step.kind) {
      case IssueEntry::Kind::post:
        post(rank, step, state.clock);
        break;
      case IssueEntry::Kind::wait:
        if (!wait(rank, step, state)) return false;
        break;
      case IssueEntry::Kind::run: {
        Task const& task = program.tasks[static_cast<std::size_t>(step.task)];
        if (!task.group) {
          run(rank, step, task, state);
        } else if (!meet(rank, step, task, state)) {
          return false;
        }
        break;
      }
      case IssueEntry::Kind::drain:
        drain(rank, state);
        break;
    }
  }
  return true;
}

template <P2p mode, class Observer>
void TimelineWalk<mode, Observer>::post(int rank, IssueEntry const& step, SimTime clock) {
  Transfer const* const transfers = input_.ranks[static_cast<std::size_t>(rank)].transfers.data();
  for (std::int32_t i = step.first; i < step.first + step.count; ++i) {
    Transfer const& transfer = transfers[i];
    bool const sends = transfer.end == Transfer::End::send;
    auto const payload = static_cast<std::size_t>(transfer.payload);
    auto& message = state_.messages[static_cast<std::size_t>(transfer.message)];
    if constexpr (mode == P2p::blocking) {
      if (message.start == WalkState::never) {
        message.start = clock;
        continue;
      }
      auto const& price =
          prices_[static_cast<std::size_t>(sends ? rank : transfer.peer)].of[payload];
      message.start = std::max(message.start, clock);
      message.end = message.start + price.latency + price.occupancy;
    } else {
      if (!sends) continue;
      auto const& price = prices_[static_cast<std::size_t>(rank)].of[payload];
      SimTime& idle = state_.ranks[static_cast<std::size_t>(rank)].send_idle[payload];
      message.start = std::max(clock, idle);
      idle = message.start + price.occupancy;
      message.end = idle + price.latency;
    }
    observer_.transferred(rank, i, message.start, message.end);
    wake(transfer.peer, transfer.message);
  }
}

template <P2p mode, class Observer>
bool TimelineWalk<mode, Observer>::wait(int rank, IssueEntry const& step, WalkState::Rank& state) {
  Transfer const* const transfers = input_.ranks[static_cast<std::size_t>(rank)].transfers.data();
  SimTime start{0};  // of the transfer that ends last
  SimTime end = state.clock;
  for (std::int32_t i = step.first; i < step.first + step.count; ++i) {
    Transfer const& transfer = transfers[i];
    auto const& message = state_.messages[static_cast<std::size_t>(transfer.message)];
    if (message.end == WalkState::never) {
      state.blocked_on = transfer.message;
      return false;
    }
    SimTime over = message.end;
    if constexpr (mode == P2p::overlapped) {
      if (transfer.end == Transfer::End::send) {
        auto const payload = static_cast<std::size_t>(transfer.payload);
        over -= prices_[static_cast<std::size_t>(rank)].of[payload].latency;
      }
    }
    if (over > end) {
      start = message.start;
      end = over;
    }
  }
  if (end > state.clock) {
    SimTime const moving = std::max(start, state.clock);
    RankTimeline& total = totals_[static_cast<std::size_t>(rank)];
    total.bubble += moving - state.clock;
    total.transfer += end - moving;
    observer_.waited(rank, state.step, state.clock, end);
    state.clock = end;
  }
  return true;
}

template <P2p mode, class Observer>
void TimelineWalk<mode, Observer>::run(int rank,
                                       IssueEntry const& step,
                                       Task const& task,
                                       WalkState::Rank& state) {
  SimTime const duration =
      input_.ranks[static_cast<std::size_t>(rank)].durations[static_cast<std::size_t>(step.task)];
  if (task.stream == Stream::data_parallel) {
    SimTime const start = std::max(state.clock, state.data_parallel_idle);
    state.data_parallel_idle = start + duration;
    observer_.ran(rank, state.step, start, state.data_parallel_idle);
    return;
  }
  SimTime const start = state.clock;
  state.clock =
      state.data_parallel_idle <= start
          ? start + duration
          : slowed_end(start, duration, state.data_parallel_idle, input_.slowdown_millionths);
  totals_[static_cast<std::size_t>(rank)].busy += state.clock - start;
  observer_.ran(rank, state.step, start, state.clock);
}

template <P2p mode, class Observer>
void TimelineWalk<mode, Observer>::drain(int rank, WalkState::Rank& state) {
  if (state.data_parallel_idle <= state.clock) return;
  totals_[static_cast<std::size_t>(rank)].data_parallel += state.data_parallel_idle - state.clock;
  observer_.waited(rank, state.step, state.clock, state.data_parallel_idle);
  state.clock = state.data_parallel_idle;
}

template <P2p mode, class Observer>
bool TimelineWalk<mode, Observer>::meet(int rank,
                                        IssueEntry const& step,
                                        Task const& task,
                                        WalkState::Rank& state) {
  auto const index = static_cast<std::size_t>(rank);
  RankTimeline& total = totals_[index];
  bool const on_compute = task.stream == Stream::compute;
  if (!state.has_joined) {
    if (!on_compute) drain(rank, state);
    state.has_joined = true;
    join(*task.group, rank, state.clock,
         input_.ranks[index].durations[static_cast<std::size_t>(step.task)]);
  }
  if (state.group_end == WalkState::never) return false;
  if (state.group_start > state.clock) {
    total.bubble += state.group_start - state.clock;
    observer_.waited(rank, state.step, state.clock, state.group_start);
  }
  (on_compute ? total.busy : total.data_parallel) += state.group_end - state.group_start;
  observer_.ran(rank, state.step, state.group_start, state.group_end);
  state.clock = state.group_end;
  state.data_parallel_idle = on_compute ? state.data_parallel_idle : state.group_end;
  state.has_joined = false;
  state.group_start = state.group_end = WalkState::never;
  return true;
}

template <P2p mode, class Observer>
void TimelineWalk<mode, Observer>::join(GroupId id, int rank, SimTime arrival, SimTime duration) {
  std::span<int const> const members = input_.groups->stages(id, rank);
  auto const first = static_cast<std::size_t>(members.front());
  WalkState::Group& group = state_.groups[id.index() * state_.ranks.size() + first];
  group.start = std::max(group.start, arrival);
  group.duration = std::max(group.duration, duration);
  if (++group.joined < members.size()) return;
  for (int const member : members) {
    auto& state = state_.ranks[static_cast<std::size_t>(member)];
    state.group_start = group.start;
    state.group_end = group.start + group.duration;
    if (member != rank) ready_.push_back(member);
  }
  group = WalkState::Group{};
}

template <P2p mode, class Observer>
Timeline TimelineWalk<mode, Observer>::finish() {
  for (std::size_t rank = 0; rank < state_.ranks.size(); ++rank) {
    // What this rank has made possible comes first: its messages are still in the cache.
    ready_.push_back(static_cast<std::int32_t>(rank));
    while (!ready_.empty()) {
      int const next = ready_.back();
      ready_.pop_back();
      advance(next);
    }
  }
  Timeline timeline{totals_, SimTime{0}};
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    WalkState::Rank const& state = state_.ranks[rank];
    if (static_cast<std::size_t>(state.step) < input_.ranks[rank].steps.size()) {
      throw ScheduleDeadlock{describe_deadlock(input_, state_)};
    }
    RankTimeline& total = timeline.ranks[rank];
    total.end = std::max(state.clock, state.data_parallel_idle);
    total.data_parallel += total.end - state.clock;
    timeline.makespan = std::max(timeline.makespan, total.end);
  }
  return timeline;
}

}  // namespace stagecraft
