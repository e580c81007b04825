#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "libsim/engine/lap_history.hpp"
#include "libsim/engine/message_channels.hpp"
#include "libsim/engine/timeline.hpp"

namespace stagecraft {

/// An entry of a stage's issue order (unroll()) that runs a task.
struct RanEntry {
  std::int32_t entry = 0;
  std::int32_t task = 0;
  std::int32_t microbatch = 0;
};

/// Hears what happens on each rank, in order of time on each rank and in no particular order across
/// ranks. This one does nothing; another has the same members. One that does not hear lets the
/// player leave out what repeats.
struct SilentObserver {
  static constexpr bool hears = true;
  void ran(int /*rank*/, RanEntry const& /*what*/, SimTime /*start*/, SimTime /*end*/) {}
  /// The rank's compute stream stood still at an entry of its issue order (a wait, a drain or a
  /// group task).
  void waited(int /*rank*/, std::int32_t /*entry*/, SimTime /*start*/, SimTime /*end*/) {}
  /// A message went from start to arrival. Told once per message, with one of its ends: a transfer
  /// of the rank's issue order.
  void transferred(int /*rank*/, std::int32_t /*transfer*/, SimTime /*start*/, SimTime /*end*/) {}
};

/// Hears nothing.
struct NoObserver : SilentObserver {
  static constexpr bool hears = false;
};

/// \throws std::invalid_argument  if play() does.
void check_timeline_input(TimelineInput const& input);

/// Where a rank stands that cannot go on.
struct BlockedRank {
  std::int32_t entry = 0;   ///< of its issue order; its size if the rank is done
  bool has_joined = false;  ///< it waits in a group
  /// By channel: whether messages that the rank has posted, or is to receive, are still to come.
  std::vector<bool> const* is_missing = nullptr;
};

/// Who waits for what, one line per rank that is not done.
std::string describe_deadlock(TimelineInput const& input, std::span<BlockedRank const> ranks);

/// Plays the programs of all stages, as play() says. Each rank goes as far as it can; a message
/// wakes who waits for it. The input and the observer must outlive the player.
template <class Channels, class Observer>
class Player {
 public:
  /// \throws std::invalid_argument  if play() does.
  Player(TimelineInput const& input, Observer& observer);

  /// Takes a rank as far as it can go now. Returns whether it is done.
  bool advance(int number);

  /// Takes all ranks to their ends.
  /// \throws ScheduleDeadlock  if they cannot get there.
  Timeline finish();
  /// The same for an observer that does not hear.
  IterationEnd finish_quickly();

  /// When all that a rank has issued so far is over.
  SimTime idle_from(int number) const {
    Rank const& rank = ranks_[static_cast<std::size_t>(number)];
    return std::max(rank.clock, rank.data_parallel_idle);
  }

 private:
  static constexpr SimTime never{std::numeric_limits<std::int64_t>::max()};
  enum class How : std::uint8_t { compute, data_parallel, group };
  struct TaskTime {
    SimTime duration{0};
    How how = How::compute;
  };
  struct Rank {
    IssueEntry const* next = nullptr;
    IssueEntry const* stop = nullptr;  ///< begin or end of the steady-state loop, or of the program
    IssueEntry const* loop_begin = nullptr;
    IssueEntry const* loop_end = nullptr;  ///< its repeat
    IssueEntry const* end = nullptr;
    Transfer const* transfers = nullptr;
    TaskTime const* tasks = nullptr;
    SimTime clock{0};  ///< of its compute stream
    SimTime busy{0};
    SimTime data_parallel_idle{0};  ///< its data-parallel stream has no work from here on
    SimTime busy_in_loop{0};
    std::int32_t times_left = 0;  ///< of the repeat that it is in; 0 if it is in none
    int border = -1;              ///< of the steady-state loop: the last one passed
    bool has_joined = false;      ///< it waits in a group
    SimTime group_start{never};   ///< of the group it waits in, once all have joined
    SimTime group_end{never};
    // For observers that hear:
    std::int32_t entry = 0;     ///< of the issue order
    std::int32_t transfer = 0;  ///< likewise: those before it have been posted
    std::int32_t advance = 0;   ///< of the microbatches
    RankTimeline total;
  };
  struct Group {
    std::size_t joined = 0;
    SimTime start{0};     ///< latest arrival so far
    SimTime duration{0};  ///< longest so far
  };

  bool issue(int number, Rank& rank, IssueEntry const& entry);
  void run(int number, Rank& rank, IssueEntry const& entry);
  bool meet(int number, Rank& rank, IssueEntry const& entry);
  void join(GroupId id, int number, SimTime arrival, SimTime duration);
  bool wait(int number, Rank& rank, IssueEntry const& entry);
  void drain(int number, Rank& rank);
  void repeat(Rank& rank, IssueEntry const& entry);
  bool pass_border(int number, Rank& rank);
  void record(int number, Rank const& rank);
  void advance_all();
  [[noreturn]] void report_deadlock() const;
  static void heard(Rank& rank, IssueEntry const& entry) {
    if constexpr (Observer::hears) {
      ++rank.entry;
      if (entry.kind == IssueEntry::Kind::post) rank.transfer += entry.count;
    }
  }

  TimelineInput const& input_;
  Observer& observer_;
  Channels channels_;
  std::vector<TaskTime> tasks_;
  std::vector<Rank> ranks_;
  std::vector<Group> groups_;        ///< by group and, of the stages that meet in it, the first
  std::vector<std::int32_t> ready_;  ///< ranks that can go on
  int loops_ = 1;                    ///< that every rank runs
  int loops_left_out_ = 0;
  SimTime left_out_{0};
  std::optional<LapHistory> history_;
};

/// Plays one iteration as play() does and tells an observer like SilentObserver what happens.
template <class Observer>
Timeline play(TimelineInput const& input, Observer& observer) {
  if (input.p2p == P2p::blocking) {
    return Player<BlockingChannels, Observer>{input, observer}.finish();
  }
  return Player<OverlappedChannels, Observer>{input, observer}.finish();
}

template <class Channels, class Observer>
Player<Channels, Observer>::Player(TimelineInput const& input, Observer& observer)
    : input_{input}, observer_{observer}, channels_{input}, ranks_(input.stages.size()) {
  check_timeline_input(input);
  std::size_t tasks = 0;
  for (PlayedStage const& stage : input.stages) tasks += stage.tasks.size();
  tasks_.reserve(tasks);
  ready_.reserve(ranks_.size());
  if (input.groups != nullptr) {
    groups_.resize(static_cast<std::size_t>(input.groups->size()) * ranks_.size());
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    PlayedStage const& stage = input.stages[i];
    Rank& rank = ranks_[i];
    rank.tasks = tasks_.data() + tasks_.size();
    for (std::size_t task = 0; task < stage.tasks.size(); ++task) {
      tasks_.push_back({stage.durations[task], stage.tasks[task].group ? How::group
                                               : stage.tasks[task].stream == Stream::data_parallel
                                                   ? How::data_parallel
                                                   : How::compute});
    }
    StageProgram const& program = *stage.program;
    rank.transfers = program.transfers.data();
    rank.next = program.entries.data();
    rank.stop = rank.end = rank.next + program.entries.size();
    if (program.steady_loop == StageProgram::none) continue;
    rank.stop = rank.loop_begin = program.entries.data() + program.loop_begin();
    rank.loop_end = program.entries.data() + program.steady_loop;
    loops_ = rank.loop_end->times;
  }
  if constexpr (!Observer::hears) {
    if (loops_ > 1 && channels_.can_tell_state(input)) {
      std::vector<std::int32_t> widths;
      widths.reserve(ranks_.size());
      for (std::size_t i = 0; i < ranks_.size(); ++i) widths.push_back(1 + channels_.width(i));
      history_.emplace(widths, loops_);
    }
  }
}

template <class Channels, class Observer>
bool Player<Channels, Observer>::advance(int number) {
  Rank& rank = ranks_[static_cast<std::size_t>(number)];
  do {
    while (rank.next != rank.stop) {
      IssueEntry const& entry = *rank.next;
      if (entry.kind == IssueEntry::Kind::repeat) {
        repeat(rank, entry);
        continue;
      }
      if (!issue(number, rank, entry)) return false;
      heard(rank, entry);
      ++rank.next;
    }
  } while (rank.stop != rank.end && pass_border(number, rank));
  return true;
}

template <class Channels, class Observer>
bool Player<Channels, Observer>::issue(int number, Rank& rank, IssueEntry const& entry) {
  switch (entry.kind) {
    case IssueEntry::Kind::run:
      if (rank.tasks[entry.task].how == How::group) return meet(number, rank, entry);
      run(number, rank, entry);
      break;
    case IssueEntry::Kind::post:
      channels_.post(std::span{rank.transfers + entry.first, static_cast<std::size_t>(entry.count)},
                     number, rank.clock, ready_,
                     [&](std::int32_t transfer, SimTime start, SimTime end) {
                       if constexpr (Observer::hears) {
                         observer_.transferred(number, rank.transfer + transfer, start, end);
                       }
                     });
      break;
    case IssueEntry::Kind::wait:
      return wait(number, rank, entry);
    case IssueEntry::Kind::drain:
      drain(number, rank);
      break;
    case IssueEntry::Kind::repeat:
      break;
  }
  return true;
}

template <class Channels, class Observer>
void Player<Channels, Observer>::repeat(Rank& rank, IssueEntry const& entry) {
  if (rank.times_left == 0) rank.times_left = entry.times;
  bool const is_over = --rank.times_left == 0;
  if constexpr (Observer::hears) {
    rank.advance += is_over ? -(entry.times - 1) * entry.microbatch : entry.microbatch;
  }
  rank.next = is_over ? rank.next + 1 : rank.next - entry.count;
}

/// The rank has come to a border of the steady-state loop.
template <class Channels, class Observer>
bool Player<Channels, Observer>::pass_border(int number, Rank& rank) {
  int const border = ++rank.border;
  if (border == 0) {
    rank.busy_in_loop = -rank.busy;
    rank.stop = rank.loop_end;
  } else if (border == 1) {
    rank.busy_in_loop += rank.busy;  // the same each time: nothing slows computation down yet
  }
  if (history_) record(number, rank);
  if (border == 0) return true;
  bool const is_over = border >= loops_;
  if constexpr (Observer::hears) {
    std::int32_t const step = rank.loop_end->microbatch;
    rank.advance += is_over ? -(rank.loop_end->times - 1) * step : step;
  }
  rank.next = is_over ? rank.loop_end + 1 : rank.loop_begin;
  if (is_over) rank.stop = rank.end;
  return true;
}

template <class Channels, class Observer>
void Player<Channels, Observer>::record(int number, Rank const& rank) {
  auto const index = static_cast<std::size_t>(number);
  auto const state = history_->state(index, rank.border);
  state.front() = rank.clock;
  channels_.write_state(index, rank.clock, state.subspan(1));
  if (!history_->is_complete_with(rank.border)) return;
  auto const repetition = history_->repetition(rank.border);
  if (!repetition) return;
  // Ranks ahead of this border have begun loops that cannot be left out any more. `number` itself
  // has not begun the next: one more for all is on the safe side.
  int begun = 0;
  for (Rank const& other : ranks_) begun = std::max(begun, other.border + 1);
  int const times = (loops_ - begun) / repetition->laps;
  if (times <= 0) return;
  loops_left_out_ = times * repetition->laps;
  left_out_ = times * repetition->shift;
  loops_ -= loops_left_out_;
  history_.reset();
}

template <class Channels, class Observer>
bool Player<Channels, Observer>::wait(int number, Rank& rank, IssueEntry const& entry) {
  SimTime start{0};  // of the message that ends last
  SimTime end = rank.clock;
  bool const is_over =
      channels_.wait(std::span{rank.transfers + entry.first, static_cast<std::size_t>(entry.count)},
                     number, start, end);
  if (!is_over) return false;
  if constexpr (Observer::hears) {
    if (end > rank.clock) {
      SimTime const moving = std::max(start, rank.clock);
      rank.total.bubble += moving - rank.clock;
      rank.total.transfer += end - moving;
      observer_.waited(number, rank.entry, rank.clock, end);
    }
  }
  rank.clock = end;
  return true;
}

template <class Channels, class Observer>
void Player<Channels, Observer>::run(int number, Rank& rank, IssueEntry const& entry) {
  TaskTime const& task = rank.tasks[entry.task];
  SimTime start = rank.clock;
  SimTime end{0};
  if (task.how == How::data_parallel) {
    start = std::max(start, rank.data_parallel_idle);
    end = rank.data_parallel_idle = start + task.duration;
  } else {
    end =
        rank.data_parallel_idle <= start
            ? start + task.duration
            : slowed_end(start, task.duration, rank.data_parallel_idle, input_.slowdown_millionths);
    rank.clock = end;
    rank.busy += end - start;
  }
  if constexpr (Observer::hears) {
    std::int32_t const microbatch = entry.microbatch < 0 ? -1 : entry.microbatch + rank.advance;
    observer_.ran(number, {rank.entry, entry.task, microbatch}, start, end);
  }
}

template <class Channels, class Observer>
void Player<Channels, Observer>::drain(int number, Rank& rank) {
  if (rank.data_parallel_idle <= rank.clock) return;
  rank.total.data_parallel += rank.data_parallel_idle - rank.clock;
  if constexpr (Observer::hears) {
    observer_.waited(number, rank.entry, rank.clock, rank.data_parallel_idle);
  }
  rank.clock = rank.data_parallel_idle;
}

template <class Channels, class Observer>
bool Player<Channels, Observer>::meet(int number, Rank& rank, IssueEntry const& entry) {
  Task const& task =
      input_.stages[static_cast<std::size_t>(number)].tasks[static_cast<std::size_t>(entry.task)];
  bool const on_compute = task.stream == Stream::compute;
  if (!rank.has_joined) {
    if (!on_compute) drain(number, rank);
    rank.has_joined = true;
    join(*task.group, number, rank.clock, rank.tasks[entry.task].duration);
  }
  if (rank.group_end == never) return false;
  if (rank.group_start > rank.clock) {
    rank.total.bubble += rank.group_start - rank.clock;
    observer_.waited(number, rank.entry, rank.clock, rank.group_start);
  }
  (on_compute ? rank.busy : rank.total.data_parallel) += rank.group_end - rank.group_start;
  observer_.ran(number, {rank.entry, entry.task, entry.microbatch}, rank.group_start,
                rank.group_end);
  rank.clock = rank.group_end;
  if (!on_compute) rank.data_parallel_idle = rank.group_end;
  rank.has_joined = false;
  rank.group_start = rank.group_end = never;
  return true;
}

template <class Channels, class Observer>
void Player<Channels, Observer>::join(GroupId id, int number, SimTime arrival, SimTime duration) {
  std::span<int const> const members = input_.groups->stages(id, number);
  auto const first = static_cast<std::size_t>(members.front());
  Group& group = groups_[id.index() * ranks_.size() + first];
  group.start = std::max(group.start, arrival);
  group.duration = std::max(group.duration, duration);
  if (++group.joined < members.size()) return;
  for (int const member : members) {
    Rank& rank = ranks_[static_cast<std::size_t>(member)];
    rank.group_start = group.start;
    rank.group_end = group.start + group.duration;
    if (member != number) ready_.push_back(member);
  }
  group = Group{};
}

template <class Channels, class Observer>
void Player<Channels, Observer>::advance_all() {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    // What this rank has made possible comes first: its messages are still in the cache.
    ready_.push_back(static_cast<std::int32_t>(i));
    while (!ready_.empty()) {
      int const next = ready_.back();
      ready_.pop_back();
      advance(next);
    }
  }
}

template <class Channels, class Observer>
void Player<Channels, Observer>::report_deadlock() const {
  std::vector<bool> const missing = channels_.missing();
  std::vector<BlockedRank> blocked;
  for (Rank const& rank : ranks_) blocked.push_back({rank.entry, rank.has_joined, &missing});
  throw ScheduleDeadlock{describe_deadlock(input_, blocked)};
}

template <class Channels, class Observer>
Timeline Player<Channels, Observer>::finish() {
  static_assert(Observer::hears);
  advance_all();
  Timeline timeline;
  for (Rank const& rank : ranks_) {
    if (rank.next != rank.end) report_deadlock();
    RankTimeline& total = timeline.ranks.emplace_back(rank.total);
    total.busy = rank.busy;
    total.end = std::max(rank.clock, rank.data_parallel_idle);
    total.data_parallel += total.end - rank.clock;
    timeline.makespan = std::max(timeline.makespan, total.end);
  }
  return timeline;
}

template <class Channels, class Observer>
IterationEnd Player<Channels, Observer>::finish_quickly() {
  static_assert(!Observer::hears);
  IterationEnd result;
  result.loops = loops_;
  advance_all();
  result.busy.reserve(ranks_.size());
  result.loops_left_out = loops_left_out_;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank const& rank = ranks_[i];
    if (rank.next != rank.end) {
      play(input_);  // which says who waits for what
      throw std::logic_error{"what repeats was left out wrongly"};
    }
    SimTime const end = idle_from(static_cast<int>(i)) + left_out_;
    result.makespan = std::max(result.makespan, end);
    result.busy.push_back(rank.busy + loops_left_out_ * rank.busy_in_loop);
  }
  return result;
}

}  // namespace stagecraft
