#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "libsim/engine/player/deadlock.hpp"
#include "libsim/engine/player/group_rendezvous.hpp"
#include "libsim/engine/player/message_channels.hpp"
#include "libsim/engine/player/observer.hpp"
#include "libsim/engine/player/stage_progress.hpp"
#include "libsim/engine/player/steady_state.hpp"
#include "libsim/engine/player/timeline.hpp"

namespace stagecraft {

/// Plays the programs of all stages, as play() says. Each stage goes as far as it can; a message
/// wakes the stage that waits for it. The input and the observer must outlive the player.
///
/// Between two calls of advance(), each stage is at the end of its program, is in `ready_`, or
/// waits for a message that nobody has posted or for a group that not all have joined. No clock
/// goes back. A start is the maximum of ends that are known, so that the order in which ready
/// stages are advanced changes nothing.
template <class Channels, class Observer>
class Player {
 public:
  /// \throws std::invalid_argument  if play() does.
  Player(TimelineInput const& input, Observer& observer);

  /// Advances a stage as far as it can go now. Returns whether it is done.
  bool advance(int number);

  /// Advances all stages to their ends.
  /// \throws ScheduleDeadlock  if they cannot reach them.
  Timeline finish();
  /// Advances all stages for an observer that is told nothing; repeats of a loop are left out.
  IterationEnd finish_quickly();

  /// The time at which everything that a stage has issued so far is over.
  SimTime idle_from(int number) const {
    return stages_[static_cast<std::size_t>(number)].idle_from();
  }

 private:
  bool issue(int number, StageProgress& stage, IssueEntry const& entry);
  void run(int number, StageProgress& stage, IssueEntry const& entry);
  SimTime end_beside_reductions(int number, StageProgress& stage, PlayedTask const& task);
  bool meet(int number, StageProgress& stage, IssueEntry const& entry);
  bool follow(int number, StageProgress& stage, IssueEntry const& entry);
  void note_first_passes();
  void join(GroupId id, int number, SimTime arrival, SimTime duration);
  bool wait(int number, StageProgress& stage, IssueEntry const& entry);
  void drain(int number, StageProgress& stage);
  void pass_border(int number, StageProgress& stage);
  void advance_all();
  [[noreturn]] void report_deadlock() const;
  static void heard(StageProgress& stage, IssueEntry const& entry) {
    if constexpr (Observer::hears) {
      ++stage.entry;
      if (entry.kind == IssueEntry::Kind::post) stage.transfer += entry.count;
    }
  }

  TimelineInput const& input_;
  Observer& observer_;
  Channels channels_;
  GroupRendezvous groups_;
  std::vector<PlayedTask> tasks_;  ///< tasks of all stages
  std::vector<StageProgress> stages_;
  std::vector<std::int32_t> ready_;  ///< stages that can go on
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
  stages_.reserve(input.stages.size());
  ready_.reserve(input.stages.size());
  for (PlayedStage const& stage : input.stages) {
    stages_.emplace_back(*stage.program, tasks_.data() + tasks_.size());
    for (std::size_t task = 0; task < stage.tasks.size(); ++task) {
      tasks_.emplace_back(stage.tasks[task], stage.durations[task],
                          stage.on_links.empty() ? SimTime{0} : stage.on_links[task]);
    }
  }
  note_first_passes();
  if constexpr (!Observer::hears) {
    if (loop_.loops() > 1 && channels_.can_tell_state(input)) {
      loop_.search(channels_, stages_.size());
    }
  }
}

/// Finds the first pass of each stage that takes its step before it is validated.
template <class Channels, class Observer>
void Player<Channels, Observer>::note_first_passes() {
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    std::span<Task const> const tasks = input_.stages[i].tasks;
    if (tasks.empty() || !tasks.back().is_validation) continue;
    stages_[i].first_pass =
        std::find_if(stages_[i].next, stages_[i].end, [&](IssueEntry const& entry) {
          return entry.kind == IssueEntry::Kind::run &&
                 tasks[static_cast<std::size_t>(entry.task)].kind != Task::Kind::step;
        });
  }
}

template <class Channels, class Observer>
bool Player<Channels, Observer>::advance(int number) {
  StageProgress& stage = stages_[static_cast<std::size_t>(number)];
  while (true) {
    while (stage.next != stage.stop) {
      IssueEntry const& entry = *stage.next;
      if (entry.kind == IssueEntry::Kind::repeat) {
        stage.template repeat<Observer::hears>(entry);
        continue;
      }
      if (!issue(number, stage, entry)) return false;
      heard(stage, entry);
      ++stage.next;
    }
    if (stage.stop == stage.end) return true;
    pass_border(number, stage);
  }
}

template <class Channels, class Observer>
bool Player<Channels, Observer>::issue(int number, StageProgress& stage, IssueEntry const& entry) {
  switch (entry.kind) {
    case IssueEntry::Kind::run:
      if (stage.tasks[entry.task].how == PlayedTask::How::group) return meet(number, stage, entry);
      if (stage.tasks[entry.task].how == PlayedTask::How::prefix)
        return follow(number, stage, entry);
      run(number, stage, entry);
      break;
    case IssueEntry::Kind::post:
      channels_.post(
          std::span{stage.transfers + entry.first, static_cast<std::size_t>(entry.count)}, number,
          stage.clock, ready_, [&](std::int32_t transfer, SimTime start, SimTime end) {
            if constexpr (Observer::hears) {
              observer_.transferred(StageId{number}, stage.transfer + transfer, start, end);
            }
          });
      break;
    case IssueEntry::Kind::wait:
      return wait(number, stage, entry);
    case IssueEntry::Kind::drain:
      drain(number, stage);
      break;
    case IssueEntry::Kind::repeat:
      break;
  }
  return true;
}

/// The stage is at a border of the steady-state loop.
template <class Channels, class Observer>
void Player<Channels, Observer>::pass_border(int number, StageProgress& stage) {
  int const border = ++stage.border;
  if (border == 0) {
    stage.busy_in_loop = -stage.busy;
    stage.stop = stage.loop_end;
  } else if (border == 1) {
    stage.busy_in_loop += stage.busy;  // the same each time: nothing slows computation down yet
  }
  loop_.pass(static_cast<std::size_t>(number), border, stage.clock, channels_);
  stage.template leave_border<Observer::hears>(loop_.loops());
}

template <class Channels, class Observer>
bool Player<Channels, Observer>::wait(int number, StageProgress& stage, IssueEntry const& entry) {
  SimTime start{0};  // start of the message that ends last
  SimTime end = stage.clock;
  bool const is_over = channels_.wait(
      std::span{stage.transfers + entry.first, static_cast<std::size_t>(entry.count)}, number,
      start, end);
  if (!is_over) return false;
  bool const is_first = stage.next < stage.first_pass;
  if (is_first) stage.idle_at_start += end - stage.clock;
  if constexpr (Observer::hears) {
    if (end > stage.clock) {
      SimTime const moving = is_first ? end : std::max(start, stage.clock);
      stage.total.bubble += moving - stage.clock;
      stage.total.transfer += end - moving;
      observer_.waited(StageId{number}, stage.entry, stage.clock, end);
    }
  }
  stage.clock = end;
  return true;
}

template <class Channels, class Observer>
void Player<Channels, Observer>::run(int number, StageProgress& stage, IssueEntry const& entry) {
  PlayedTask const& task = stage.tasks[entry.task];
  SimTime start = stage.clock;
  SimTime end{0};
  if (task.how == PlayedTask::How::data_parallel) {
    start = std::max(start, stage.data_parallel_idle);
    end = stage.data_parallel_idle = start + task.duration;
  } else if (task.how == PlayedTask::How::offload) {
    SimTime& idle = stage.offload_idle[task.leg];
    start = std::max(start, idle);
    if (task.leg > 0) start = std::max(start, stage.offload_idle[task.leg - 1U]);
    end = idle = start + task.duration;
  } else {
    end = stage.data_parallel_idle <= start ? start + task.duration
                                            : end_beside_reductions(number, stage, task);
    stage.clock = end;
    stage.busy += end - start;
  }
  if constexpr (Observer::hears) {
    MicrobatchId const microbatch =
        entry.microbatch == no_microbatch ? no_microbatch : entry.microbatch + stage.advance;
    observer_.ran(StageId{number}, {stage.entry, entry.task, microbatch}, start, end);
  }
}

/// The end of a task that begins now. The reductions on the stage's data-parallel stream slow it
/// down and share links with it, and end later themselves.
template <class Channels, class Observer>
SimTime Player<Channels, Observer>::end_beside_reductions(int number,
                                                          StageProgress& stage,
                                                          PlayedTask const& task) {
  TaskBesideReductions const running{.start = stage.clock,
                                     .duration = task.duration,
                                     .on_links = task.on_links,
                                     .busy_until = stage.data_parallel_idle,
                                     .slowdown_millionths = input_.slowdown_millionths};
  SimTime const delay = running.delay();
  if (delay > SimTime{0}) {
    if constexpr (Observer::hears) {
      observer_.shared_links(StageId{number}, stage.clock, running.beside(), delay);
    }
    stage.data_parallel_idle += delay;
  }
  return running.reaches(task.duration);
}

template <class Channels, class Observer>
void Player<Channels, Observer>::drain(int number, StageProgress& stage) {
  SimTime const reduced = std::max(stage.clock, stage.data_parallel_idle);
  SimTime const end = std::max(reduced, stage.offload_idle.back());
  if (end <= stage.clock) return;
  stage.total.data_parallel += reduced - stage.clock;
  stage.total.offload += end - reduced;
  if constexpr (Observer::hears) {
    observer_.waited(StageId{number}, stage.entry, stage.clock, end);
  }
  stage.clock = end;
}

template <class Channels, class Observer>
bool Player<Channels, Observer>::meet(int number, StageProgress& stage, IssueEntry const& entry) {
  Task const& task =
      input_.stages[static_cast<std::size_t>(number)].tasks[static_cast<std::size_t>(entry.task)];
  bool const on_compute = task.stream == Stream::compute;
  if (task.is_validation && stage.validates_from == StageProgress::never) {
    stage.validates_from = stage.clock;
    stage.busy_until_then = stage.busy;
  }
  if (!stage.has_joined) {
    if (!on_compute) drain(number, stage);
    stage.has_joined = true;
    join(*task.group, number, stage.clock, stage.tasks[entry.task].duration);
  }
  if (stage.group_end == StageProgress::never) return false;
  if (stage.group_start > stage.clock) {
    stage.total.bubble += stage.group_start - stage.clock;
    observer_.waited(StageId{number}, stage.entry, stage.clock, stage.group_start);
  }
  (on_compute ? stage.busy : stage.total.data_parallel) += stage.group_end - stage.group_start;
  observer_.ran(StageId{number}, {stage.entry, entry.task, entry.microbatch}, stage.group_start,
                stage.group_end);
  stage.clock = stage.group_end;
  if (!on_compute) stage.data_parallel_idle = stage.group_end;
  stage.has_joined = false;
  stage.group_start = stage.group_end = StageProgress::never;
  return true;
}

/// Runs a task of a group that waits only for the stages before this one.
template <class Channels, class Observer>
bool Player<Channels, Observer>::follow(int number, StageProgress& stage, IssueEntry const& entry) {
  Task const& task =
      input_.stages[static_cast<std::size_t>(number)].tasks[static_cast<std::size_t>(entry.task)];
  auto const turn =
      groups_.follow(*task.group, StageId{number}, stage.clock, stage.tasks[entry.task].duration);
  stage.has_joined = !turn;
  if (!turn) return false;
  if (turn->start > stage.clock) {
    stage.total.bubble += turn->start - stage.clock;
    observer_.waited(StageId{number}, stage.entry, stage.clock, turn->start);
  }
  stage.busy += turn->end - turn->start;
  observer_.ran(StageId{number}, {stage.entry, entry.task, entry.microbatch}, turn->start,
                turn->end);
  stage.clock = turn->end;
  if (turn->next) ready_.push_back(turn->next->value());
  return true;
}

template <class Channels, class Observer>
void Player<Channels, Observer>::join(GroupId id, int number, SimTime arrival, SimTime duration) {
  auto const task = groups_.join(id, StageId{number}, arrival, duration);
  if (!task) return;
  for (StageId const member : task->members) {
    StageProgress& stage = stages_[member.index()];
    stage.group_start = task->start;
    stage.group_end = task->end;
    if (member.value() != number) ready_.push_back(member.value());
  }
}

template <class Channels, class Observer>
void Player<Channels, Observer>::advance_all() {
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    // Stages that this stage has woken come first: their messages are still in the cache.
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
  std::vector<BlockedStage> blocked;
  for (StageProgress const& stage : stages_)
    blocked.push_back({stage.entry, stage.has_joined, &missing});
  throw ScheduleDeadlock{describe_deadlock(input_, blocked)};
}

template <class Channels, class Observer>
Timeline Player<Channels, Observer>::finish() {
  static_assert(Observer::hears);
  advance_all();
  Timeline timeline;
  for (StageProgress const& stage : stages_) {
    if (stage.next != stage.end) report_deadlock();
    StageTimeline& total = timeline.stages.emplace_back(stage.total);
    total.busy = stage.busy;
    total.end = stage.idle_from();
    total.data_parallel += total.end - stage.clock;
    timeline.makespan = std::max(timeline.makespan, total.end);
    timeline.period = std::max(timeline.period, stage.period());
  }
  return timeline;
}

template <class Channels, class Observer>
IterationEnd Player<Channels, Observer>::finish_quickly() {
  static_assert(!Observer::hears);
  IterationEnd result;
  result.loops = loop_.loops();
  advance_all();
  result.busy.reserve(stages_.size());
  result.loops_left_out = loop_.loops_left_out();
  for (StageProgress const& stage : stages_) {
    if (stage.next != stage.end) {
      play(input_);  // throws an error that says who waits for what
      throw std::logic_error{"what repeats was left out wrongly"};
    }
    SimTime const end = stage.idle_from() + loop_.time_left_out();
    result.makespan = std::max(result.makespan, end);
    result.period = std::max(result.period, stage.period() + loop_.time_left_out());
    result.busy.push_back(stage.busy + loop_.loops_left_out() * stage.busy_in_loop);
  }
  return result;
}

}  // namespace stagecraft
