#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "libsim/plan/message_cost.hpp"
#include "libsim/ranks/rank_groups.hpp"
#include "libsim/schedule/issue_entry.hpp"
#include "libsim/schedule/stage_program.hpp"
#include "libsim/training/training_config.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// One stage as the player sees it: its program, and the durations of its tasks.
struct PlayedStage {
  StageProgram const* program = nullptr;
  std::span<Task const> tasks;
  std::span<SimTime const> durations;  ///< duration of each task, alone on its stage
  /// The part of each task's duration in which its collectives use the links over which gradients
  /// are reduced. Empty if no task uses them.
  std::span<SimTime const> on_links = {};
};

/// Everything from which an iteration's timeline follows.
struct TimelineInput {
  std::span<PlayedStage const> stages;
  std::span<MessageCost const> channels;  ///< cost of a message of each channel
  /// Most messages of a channel that are sent and not yet received.
  int most_queued = 1;
  P2p p2p = P2p::blocking;
  /// Computation loses this many millionths of its speed while its stage's data-parallel stream is
  /// busy. In [0, 1000000).
  int slowdown_millionths = 0;
  RankGroups const* groups = nullptr;  ///< groups of the tasks; needed if a task has one
};

/// The parts of a stage's time: end = busy + transfer + bubble + data_parallel + offload.
struct StageTimeline {
  SimTime end{0};       ///< time at which all its streams are done
  SimTime busy{0};      ///< time of tasks on the compute stream
  SimTime transfer{0};  ///< time of waiting for a message on its way
  /// Time of waiting for another stage to start a message or to join a group.
  SimTime bubble{0};
  SimTime data_parallel{0};  ///< time of waiting for the data-parallel stream
  SimTime offload{0};        ///< time of waiting for the host and its link

  friend bool operator==(StageTimeline const&, StageTimeline const&) = default;
};

/// The outcome of an iteration.
struct Timeline {
  std::vector<StageTimeline> stages;
  SimTime makespan{0};  ///< end of the last stage
  SimTime period{0};    ///< from one iteration to the next: the longest of any stage

  friend bool operator==(Timeline const&, Timeline const&) = default;
};

/// Busy time of the busiest stage: the iteration time if no stage ever waited.
SimTime ideal_time(Timeline const& timeline);

/// (makespan - ideal) / ideal. Pre: some stage is busy.
double bubble_fraction(Timeline const& timeline);

/// Work is left and no stage can go on. The message has one line per blocked stage, which says who
/// waits for what: "stage 3 waits for receive(activation, microbatch 5, chunk 0) from stage 2".
class ScheduleDeadlock : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The end of an iteration whose repetitions may have been left out.
struct IterationEnd {
  SimTime makespan{0};        ///< end of the last stage
  SimTime period{0};          ///< see Timeline
  std::vector<SimTime> busy;  ///< tasks on each stage's compute stream
  int loops = 1;              ///< times that the steady-state loop runs in the iteration
  int loops_left_out = 0;     ///< runs that were left out because they repeat others
};

/// Plays one iteration of all stages and gives the time at which each is done.
///
/// Compute stream: a stage's tasks, waits and drains follow each other.
/// Data-parallel stream: its tasks run behind the compute stream in issue order; `drain` waits for
/// it. While it is busy, computation is slowed down; a task is rounded to whole picoseconds once.
/// Streams to the host, of the host and from it: their tasks run in issue order behind the compute
/// stream, and behind the last task that was issued on the stream before theirs. `drain` waits for
/// them too. They slow nothing down.
/// Group tasks: start when every participant has arrived (one whose task is on the data-parallel
/// stream arrives once that stream is idle), last as long as the longest cost among them and end
/// together. The compute stream waits for them on either stream, as Megatron's all-reduces of the
/// tied embedding and of the gradient norm do. They are not slowed down. The k-th group task of a
/// stage meets the k-th of the others in that group.
/// Blocking p2p: a message starts when both ends have posted it and takes latency + occupancy; a
/// wait is for all that its stage has posted.
/// Overlapped p2p: a message starts when its sender has posted it and the sender's earlier messages
/// of that payload have left (each holds the stream for its occupancy); it arrives at the receiver,
/// whether or not that has posted, latency + occupancy later. The sender's wait ends when it has
/// left.
/// Prefix tasks: a stage of a group starts when the one before it has ended its own task, and waits
/// for no later stage.
///
/// Steps taken before they are validated: the period of a stage is the time from its first pass
/// until it could validate, plus what it computes after that. It includes no wait for the
/// first message, during which the stage validates, and none for other stages. Stages that start
/// later also end later, so that the iteration takes the longest period of a stage: the cost of a
/// schedule in Qi et al. 2023, arXiv:2401.10241.
///
/// The result does not depend on the order in which stages are taken up: each is a sequential
/// process that only ever waits for a named message or group.
/// \throws ScheduleDeadlock  when nothing can move and entries are left.
/// \throws std::invalid_argument  for a task on a stream other than compute, data_parallel and those
///         of the host, a task in a group that its stage is not in, durations that do not match the
///         tasks, a negative cost, or a slowdown out of range.
Timeline play(TimelineInput const& input);

/// The same up to the end of the iteration, in a fraction of the time and exact to the picosecond:
/// once the steady-state loop is found to repeat itself (LoopHistory), its other runs are left out.
IterationEnd play_to_end(TimelineInput const& input);

/// \throws std::invalid_argument  if play() does.
void check_timeline_input(TimelineInput const& input);

/// The number of times that every stage runs the steady-state loop; 1 if there is none.
int times_of_loop(TimelineInput const& input);

/// The end of a computation of `duration` that starts at `start`, on a stage whose data-parallel
/// stream is busy until `busy_until`. Exact, rounded once to the nearest picosecond.
SimTime slowed_end(SimTime start, SimTime duration, SimTime busy_until, int slowdown_millionths);

/// A task that begins while the data-parallel stream of its stage is busy.
///
/// It is slowed down as slowed_end() says. While one of its collectives and a reduction use the
/// same links, each has half of them. If the links were not shared, task and reductions would run
/// beside each other for some time; of that time, the part on_links / duration takes twice as long,
/// for both.
struct TaskBesideReductions {
  SimTime start{0};
  SimTime duration{0};
  SimTime on_links{0};    ///< see PlayedStage
  SimTime busy_until{0};  ///< of the data-parallel stream, without this task
  int slowdown_millionths = 0;

  /// The time at which it has computed `offset` of its duration.
  SimTime reaches(SimTime offset) const;
  /// The time for which both run until the task is over, without the delay.
  SimTime beside() const;
  /// How much later the task and the reductions after it end because they share links.
  SimTime delay() const;
};

/// The time of an event on a data-parallel stream that shares its links with a task from `from` on,
/// if the event would be at `time` without that task. Pre: beside > 0.
SimTime delayed_by_sharing(SimTime time, SimTime from, SimTime beside, SimTime delay);

}  // namespace stagecraft
