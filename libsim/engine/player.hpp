#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "libsim/engine/deadlock.hpp"
#include "libsim/engine/group_rendezvous.hpp"
#include "libsim/engine/message_channels.hpp"
#include "libsim/engine/observer.hpp"
#include "libsim/engine/stage_progress.hpp"
#include "libsim/engine/steady_state.hpp"
#include "libsim/engine/timeline.hpp"

namespace stagecraft {

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
    return ranks_[static_cast<std::size_t>(number)].idle_from();
  }

 private:
  using Rank = PlayedRank;

  bool issue(int number, Rank& rank, IssueEntry const& entry);
  void run(int number, Rank& rank, IssueEntry const& entry);
  SimTime end_beside_reductions(int number, Rank& rank, PlayedTask const& task);
  bool meet(int number, Rank& rank, IssueEntry const& entry);
  bool follow(int number, Rank& rank, IssueEntry const& entry);
  void note_first_passes();
  void join(GroupId id, int number, SimTime arrival, SimTime duration);
  bool wait(int number, Rank& rank, IssueEntry const& entry);
  void drain(int number, Rank& rank);
  void pass_border(int number, Rank& rank);
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
  GroupRendezvous groups_;
  std::vector<PlayedTask> tasks_;  ///< of all stages
  std::vector<Rank> ranks_;
  std::vector<std::int32_t> ready_;  ///< ranks that can go on
  SteadyState loop_;
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
    : input_{input},
      observer_{observer},
      channels_{input},
      groups_{input.groups, input.stages.size()},
      loop_{times_of_loop(input)} {
  check_timeline_input(input);
  std::size_t tasks = 0;
  for (PlayedStage const& stage : input.stages) tasks += stage.tasks.size();
  tasks_.reserve(tasks);
  ranks_.reserve(input.stages.size());
  ready_.reserve(input.stages.size());
  for (PlayedStage const& stage : input.stages) {
    ranks_.emplace_back(*stage.program, tasks_.data() + tasks_.size());
    for (std::size_t task = 0; task < stage.tasks.size(); ++task) {
      tasks_.emplace_back(stage.tasks[task], stage.durations[task],
                          stage.on_links.empty() ? SimTime{0} : stage.on_links[task]);
    }
  }
  note_first_passes();
  if constexpr (!Observer::hears) {
    if (loop_.loops() > 1 && channels_.can_tell_state(input)) {
      loop_.search(channels_, ranks_.size());
    }
  }
}

/// Finds the first pass of each stage that takes its step before it is validated.
template <class Channels, class Observer>
void Player<Channels, Observer>::note_first_passes() {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    std::span<Task const> const tasks = input_.stages[i].tasks;
    if (tasks.empty() || !tasks.back().is_validation) continue;
    ranks_[i].first_pass =
        std::find_if(ranks_[i].next, ranks_[i].end, [&](IssueEntry const& entry) {
          return entry.kind == IssueEntry::Kind::run &&
                 tasks[static_cast<std::size_t>(entry.task)].kind != Task::Kind::step;
        });
  }
}

template <class Channels, class Observer>
bool Player<Channels, Observer>::advance(int number) {
  Rank& rank = ranks_[static_cast<std::size_t>(number)];
  while (true) {
    while (rank.next != rank.stop) {
      IssueEntry const& entry = *rank.next;
      if (entry.kind == IssueEntry::Kind::repeat) {
        rank.template repeat<Observer::hears>(entry);
        continue;
      }
      if (!issue(number, rank, entry)) return false;
      heard(rank, entry);
      ++rank.next;
    }
    if (rank.stop == rank.end) return true;
    pass_border(number, rank);
  }
}

template <class Channels, class Observer>
bool Player<Channels, Observer>::issue(int number, Rank& rank, IssueEntry const& entry) {
  switch (entry.kind) {
    case IssueEntry::Kind::run:
      if (rank.tasks[entry.task].how == PlayedTask::How::group) return meet(number, rank, entry);
      if (rank.tasks[entry.task].how == PlayedTask::How::prefix) return follow(number, rank, entry);
      run(number, rank, entry);
      break;
    case IssueEntry::Kind::post:
      channels_.post(
          std::span{rank.transfers + entry.first, static_cast<std::size_t>(entry.count)}, number,
          rank.clock, ready_, [&](std::int32_t transfer, SimTime start, SimTime end) {
            if constexpr (Observer::hears) {
              observer_.transferred(StageId{number}, rank.transfer + transfer, start, end);
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

/// The rank has come to a border of the steady-state loop.
template <class Channels, class Observer>
void Player<Channels, Observer>::pass_border(int number, Rank& rank) {
  int const border = ++rank.border;
  if (border == 0) {
    rank.busy_in_loop = -rank.busy;
    rank.stop = rank.loop_end;
  } else if (border == 1) {
    rank.busy_in_loop += rank.busy;  // the same each time: nothing slows computation down yet
  }
  loop_.pass(static_cast<std::size_t>(number), border, rank.clock, channels_);
  rank.template leave_border<Observer::hears>(loop_.loops());
}

template <class Channels, class Observer>
bool Player<Channels, Observer>::wait(int number, Rank& rank, IssueEntry const& entry) {
  SimTime start{0};  // of the message that ends last
  SimTime end = rank.clock;
  bool const is_over =
      channels_.wait(std::span{rank.transfers + entry.first, static_cast<std::size_t>(entry.count)},
                     number, start, end);
  if (!is_over) return false;
  bool const is_first = rank.next < rank.first_pass;
  if (is_first) rank.idle_at_start += end - rank.clock;
  if constexpr (Observer::hears) {
    if (end > rank.clock) {
      SimTime const moving = is_first ? end : std::max(start, rank.clock);
      rank.total.bubble += moving - rank.clock;
      rank.total.transfer += end - moving;
      observer_.waited(StageId{number}, rank.entry, rank.clock, end);
    }
  }
  rank.clock = end;
  return true;
}

template <class Channels, class Observer>
void Player<Channels, Observer>::run(int number, Rank& rank, IssueEntry const& entry) {
  PlayedTask const& task = rank.tasks[entry.task];
  SimTime start = rank.clock;
  SimTime end{0};
  if (task.how == PlayedTask::How::data_parallel) {
    start = std::max(start, rank.data_parallel_idle);
    end = rank.data_parallel_idle = start + task.duration;
  } else {
    end = rank.data_parallel_idle <= start ? start + task.duration
                                           : end_beside_reductions(number, rank, task);
    rank.clock = end;
    rank.busy += end - start;
  }
  if constexpr (Observer::hears) {
    MicrobatchId const microbatch =
        entry.microbatch == no_microbatch ? no_microbatch : entry.microbatch + rank.advance;
    observer_.ran(StageId{number}, {rank.entry, entry.task, microbatch}, start, end);
  }
}

/// When a task that begins now ends. The reductions that the rank's data-parallel stream is busy
/// with slow it down and share links with it, and end later themselves.
template <class Channels, class Observer>
SimTime Player<Channels, Observer>::end_beside_reductions(int number,
                                                          Rank& rank,
                                                          PlayedTask const& task) {
  TaskBesideReductions const running{.start = rank.clock,
                                     .duration = task.duration,
                                     .on_links = task.on_links,
                                     .busy_until = rank.data_parallel_idle,
                                     .slowdown_millionths = input_.slowdown_millionths};
  SimTime const delay = running.delay();
  if (delay > SimTime{0}) {
    if constexpr (Observer::hears) {
      observer_.shared_links(StageId{number}, rank.clock, running.beside(), delay);
    }
    rank.data_parallel_idle += delay;
  }
  return running.reaches(task.duration);
}

template <class Channels, class Observer>
void Player<Channels, Observer>::drain(int number, Rank& rank) {
  if (rank.data_parallel_idle <= rank.clock) return;
  rank.total.data_parallel += rank.data_parallel_idle - rank.clock;
  if constexpr (Observer::hears) {
    observer_.waited(StageId{number}, rank.entry, rank.clock, rank.data_parallel_idle);
  }
  rank.clock = rank.data_parallel_idle;
}

template <class Channels, class Observer>
bool Player<Channels, Observer>::meet(int number, Rank& rank, IssueEntry const& entry) {
  Task const& task =
      input_.stages[static_cast<std::size_t>(number)].tasks[static_cast<std::size_t>(entry.task)];
  bool const on_compute = task.stream == Stream::compute;
  if (task.is_validation && rank.validates_from == Rank::never) {
    rank.validates_from = rank.clock;
    rank.busy_until_then = rank.busy;
  }
  if (!rank.has_joined) {
    if (!on_compute) drain(number, rank);
    rank.has_joined = true;
    join(*task.group, number, rank.clock, rank.tasks[entry.task].duration);
  }
  if (rank.group_end == Rank::never) return false;
  if (rank.group_start > rank.clock) {
    rank.total.bubble += rank.group_start - rank.clock;
    observer_.waited(StageId{number}, rank.entry, rank.clock, rank.group_start);
  }
  (on_compute ? rank.busy : rank.total.data_parallel) += rank.group_end - rank.group_start;
  observer_.ran(StageId{number}, {rank.entry, entry.task, entry.microbatch}, rank.group_start,
                rank.group_end);
  rank.clock = rank.group_end;
  if (!on_compute) rank.data_parallel_idle = rank.group_end;
  rank.has_joined = false;
  rank.group_start = rank.group_end = Rank::never;
  return true;
}

/// A task of a group that waits only for the ranks before this one.
template <class Channels, class Observer>
bool Player<Channels, Observer>::follow(int number, Rank& rank, IssueEntry const& entry) {
  Task const& task =
      input_.stages[static_cast<std::size_t>(number)].tasks[static_cast<std::size_t>(entry.task)];
  auto const turn =
      groups_.follow(*task.group, StageId{number}, rank.clock, rank.tasks[entry.task].duration);
  rank.has_joined = !turn;
  if (!turn) return false;
  if (turn->start > rank.clock) {
    rank.total.bubble += turn->start - rank.clock;
    observer_.waited(StageId{number}, rank.entry, rank.clock, turn->start);
  }
  rank.busy += turn->end - turn->start;
  observer_.ran(StageId{number}, {rank.entry, entry.task, entry.microbatch}, turn->start,
                turn->end);
  rank.clock = turn->end;
  if (turn->next) ready_.push_back(turn->next->value());
  return true;
}

template <class Channels, class Observer>
void Player<Channels, Observer>::join(GroupId id, int number, SimTime arrival, SimTime duration) {
  auto const task = groups_.join(id, StageId{number}, arrival, duration);
  if (!task) return;
  for (StageId const member : task->members) {
    Rank& rank = ranks_[member.index()];
    rank.group_start = task->start;
    rank.group_end = task->end;
    if (member.value() != number) ready_.push_back(member.value());
  }
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
    total.end = rank.idle_from();
    total.data_parallel += total.end - rank.clock;
    timeline.makespan = std::max(timeline.makespan, total.end);
    timeline.period = std::max(timeline.period, rank.period());
  }
  return timeline;
}

template <class Channels, class Observer>
IterationEnd Player<Channels, Observer>::finish_quickly() {
  static_assert(!Observer::hears);
  IterationEnd result;
  result.loops = loop_.loops();
  advance_all();
  result.busy.reserve(ranks_.size());
  result.loops_left_out = loop_.loops_left_out();
  for (Rank const& rank : ranks_) {
    if (rank.next != rank.end) {
      play(input_);  // which says who waits for what
      throw std::logic_error{"what repeats was left out wrongly"};
    }
    SimTime const end = rank.idle_from() + loop_.time_left_out();
    result.makespan = std::max(result.makespan, end);
    result.period = std::max(result.period, rank.period() + loop_.time_left_out());
    result.busy.push_back(rank.busy + loop_.loops_left_out() * rank.busy_in_loop);
  }
  return result;
}

}  // namespace stagecraft
