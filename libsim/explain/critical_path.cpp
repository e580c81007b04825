#include "libsim/explain/critical_path.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace stagecraft {

namespace {

/// The shares of a task, or of a pass, that are spent waiting for collectives of layers.
TimeShares exposed_communication(BlockProgram const& block, PassTimes const& times, Pass pass) {
  TimeShares exposed;
  if (block.kind == BlockProgram::Kind::embedding || block.kind == BlockProgram::Kind::head) {
    return exposed;
  }
  std::vector<Op> const& ops = block.ops(pass);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    bool const is_of_layers =
        ops[i].phase != Phase::data_parallel && ops[i].phase != Phase::offload;
    if (ops[i].kind != OpKind::wait || !is_of_layers) continue;
    SimTime& share = ops[i].phase == Phase::forward     ? exposed.forward
                     : ops[i].phase == Phase::recompute ? exposed.recompute
                                                        : exposed.backward;
    share += times.end[i] - times.start[i];
  }
  return exposed;
}

/// `profile` is that of the task. What a pair hides is taken off its second task.
TimeShares exposed_communication(CostedPlan const& costed,
                                 Task const& task,
                                 TaskProfile const& profile) {
  TimeShares exposed;
  if (task.kind == Task::Kind::step) return exposed;
  Pass const pass = pass_of(task);
  for (TaskBlock const& of_task : blocks_in_order(costed.plan().programs, task)) {
    exposed += exposed_communication(costed.plan().programs.blocks[of_task.block],
                                     costed.blocks()[of_task.block].times(pass), pass);
  }
  exposed -= profile.hidden;
  return exposed;
}

KindTimes kinds_of(TimeShares const& shares, TimeShares const& exposed) {
  KindTimes kinds;
  kinds[TimeKind::forward] = shares.forward - exposed.forward;
  kinds[TimeKind::backward] = shares.backward - exposed.backward;
  kinds[TimeKind::recompute] = shares.recompute - exposed.recompute;
  kinds[TimeKind::tensor_parallel] = exposed.sum();
  kinds[TimeKind::head_and_embedding] = shares.head_and_embedding;
  kinds[TimeKind::data_parallel] = shares.data_parallel;
  kinds[TimeKind::optimizer] = shares.optimizer;
  kinds[TimeKind::offload] = shares.offload;
  return kinds;
}

constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

/// The streams of a stage for which its compute stream waits only where the plan says: that of
/// reductions, and those of the host.
using SideTimes = std::array<SimTime, 4>;

/// The number of a stream in SideTimes; nullopt for others.
std::optional<std::size_t> side_of(Stream stream) {
  if (stream == Stream::data_parallel) return 0;
  if (kind_of(stream) != StreamKind::offload) return std::nullopt;
  return 1 + static_cast<std::size_t>(stream) - static_cast<std::size_t>(Stream::to_host);
}

/// A stage's clocks, and the entries that posted its messages.
struct StageCourse {
  /// Before each entry, and after the last one: the clock of the compute stream, and the times
  /// until which the other streams are busy.
  std::vector<SimTime> clock;
  std::vector<SideTimes> side_idle;
  std::vector<std::size_t> post_of;  ///< by transfer: the entry that posts it
  std::map<GroupId, std::vector<std::size_t>> group_tasks;  ///< entries of group tasks, in order

  StageCourse(StagePlan const& plan, RecordedStage const& times)
      : clock{SimTime{0}}, side_idle{SideTimes{}}, post_of(times.order.transfers.size(), nowhere) {
    for (std::size_t i = 0; i < times.order.entries.size(); ++i) {
      SimTime now = clock.back();
      SideTimes idle = side_idle.back();
      IssueEntry const& entry = times.order.entries[i];
      Interval const& time = times.entries[i];
      switch (entry.kind) {
        case IssueEntry::Kind::post:
          for (std::int32_t k = entry.first; k < entry.first + entry.count; ++k) {
            post_of[static_cast<std::size_t>(k)] = i;
          }
          break;
        case IssueEntry::Kind::wait:
        case IssueEntry::Kind::drain:
        case IssueEntry::Kind::repeat:
          now = std::max(now, time.end);
          break;
        case IssueEntry::Kind::run: {
          Task const& task = plan.tasks[static_cast<std::size_t>(entry.task)];
          if (auto const side = side_of(task.stream)) idle[*side] = time.end;
          if (task.stream == Stream::compute || task.group) now = time.end;
          if (task.group) group_tasks[*task.group].push_back(i);
          break;
        }
      }
      clock.push_back(now);
      side_idle.push_back(idle);
    }
  }
};

/// Goes backwards through an iteration, from entry to entry of the stages' issue orders, and
/// collects pieces that leave no gap: each begins when the one found after it ends. Its
/// position is `stage_`, `entry_` and `time_`. It reads recorded times only: an entry that begins
/// when nothing has ended is an error of the recording. find() ends the search's life.
class PathSearch {
 public:
  PathSearch(CostedPlan const& costed, RecordedTimes const& times)
      : costed_{costed},
        plan_{costed.plan()},
        times_{times},
        messages_{ends_of_messages(times.stages, plan_.messages)} {
    path_.by_stage.resize(plan_.stages.size());
    for (std::size_t r = 0; r < plan_.stages.size(); ++r) {
      courses_.emplace_back(plan_.stages[StageId::of_index(r)], times.stages[r]);
    }
  }

  CriticalPath find() && {
    SimTime const overhead = costed_.cost().iteration_overhead();
    add({.what = PathPiece::What::overhead,
         .start = times_.makespan,
         .end = times_.makespan + overhead});
    path_.in_next = times_.makespan - times_.period;
    start_at_end();
    while (time_ > SimTime{0}) {
      if (on_side_stream_) {
        leave_side_stream();
      } else {
        take_step_back();
      }
    }
    std::reverse(path_.pieces.begin(), path_.pieces.end());
    return std::move(path_);
  }

 private:
  StagePlan const& plan() const { return plan_.stages[StageId::of_index(stage_)]; }
  IssueOrder const& order(std::size_t stage) const { return times_.stages[stage].order; }
  StageCourse const& course() const { return courses_[stage_]; }

  [[noreturn]] void lose() const {
    throw std::logic_error{"nothing is over when entry " + std::to_string(entry_) + " of stage " +
                           std::to_string(stage_) + " begins"};
  }

  void add(PathPiece const& piece) {
    if (piece.start == piece.end) return;
    SimTime const duration = piece.end - piece.start;
    path_.pieces.push_back(piece);
    if (piece.what == PathPiece::What::overhead) {
      path_.kinds[TimeKind::optimizer] += duration;
      path_.overhead += duration;
    } else if (piece.what == PathPiece::What::message) {
      path_.kinds[TimeKind::pipeline_transfer] += duration;
      path_.in_messages += duration;
      ++path_.messages;
    } else {
      auto const stage = static_cast<std::size_t>(piece.stage);
      IssueEntry const& entry = order(stage).entries[static_cast<std::size_t>(piece.entry)];
      path_.kinds += kinds_of_task(costed_, StageId::of_index(stage),
                                   static_cast<std::size_t>(entry.task), duration);
      path_.by_stage[stage] += duration;
    }
  }
  void add_task(std::size_t stage, std::size_t entry, SimTime start, SimTime end) {
    add({.what = PathPiece::What::task,
         .stage = static_cast<std::int32_t>(stage),
         .entry = static_cast<std::int32_t>(entry),
         .start = start,
         .end = end});
  }

  /// Continues with a stage at `entry`, if on one of its streams the entries before were over at
  /// `time_`. Returns false if they were not.
  bool go_to(std::size_t stage, std::size_t entry) {
    bool const on_compute = courses_[stage].clock[entry] == time_;
    bool const on_side = std::ranges::find(courses_[stage].side_idle[entry], time_) !=
                         courses_[stage].side_idle[entry].end();
    if (!on_compute && !on_side) return false;
    stage_ = stage;
    entry_ = entry;
    on_side_stream_ = !on_compute;
    return true;
  }

  void start_at_end() {
    time_ = times_.makespan;
    for (std::size_t r = 0; r < courses_.size(); ++r) {
      if (go_to(r, order(r).entries.size())) return;
    }
    lose();
  }

  /// The compute stream's clock is at `time_` before entry `entry_`. Finds what it waited for.
  void take_step_back() {
    do {
      if (entry_ == 0) lose();
      --entry_;
    } while (course().clock[entry_] == time_);
    IssueEntry const& entry = order(stage_).entries[entry_];
    if (entry.kind == IssueEntry::Kind::wait) {
      follow_message(entry);
    } else if (entry.kind == IssueEntry::Kind::drain) {
      on_side_stream_ = true;
    } else if (auto const group = plan().tasks[static_cast<std::size_t>(entry.task)].group) {
      follow_group(*group);
    } else {
      add_task(stage_, entry_, course().clock[entry_], time_);
      time_ = course().clock[entry_];
    }
  }

  /// A stream beside the compute stream is idle from `time_` on, before entry `entry_`.
  void leave_side_stream() {
    auto const ends_now = [&](std::size_t i) {
      IssueEntry const& entry = order(stage_).entries[i];
      return entry.kind == IssueEntry::Kind::run &&
             side_of(plan().tasks[static_cast<std::size_t>(entry.task)].stream) &&
             times_.stages[stage_].entries[i].end == time_;
    };
    do {
      if (entry_ == 0) lose();
      --entry_;
    } while (!ends_now(entry_));
    SimTime const start = times_.stages[stage_].entries[entry_].start;
    add_task(stage_, entry_, start, time_);
    time_ = start;
    if (!go_to(stage_, entry_)) lose();
  }

  /// The task of a group ended at `time_`; it started when its last member had arrived.
  void follow_group(GroupId group) {
    Interval const ran = times_.stages[stage_].entries[entry_];
    add_task(stage_, entry_, ran.start, ran.end);
    time_ = ran.start;
    auto const& own = course().group_tasks.at(group);
    auto const position =
        static_cast<std::size_t>(std::find(own.begin(), own.end(), entry_) - own.begin());
    auto const came_last = [&](std::size_t member) {
      StageCourse const& other = courses_[member];
      std::size_t const entry = other.group_tasks.at(group).at(position);
      IssueEntry const& joins = order(member).entries[entry];
      Task const& task =
          plan_.stages[StageId::of_index(member)].tasks[static_cast<std::size_t>(joins.task)];
      SimTime came = other.clock[entry];
      if (auto const side = side_of(task.stream)) {
        came = std::max(came, other.side_idle[entry][*side]);
      }
      return came == time_ && go_to(member, entry);
    };
    if (came_last(stage_)) return;
    IssueEntry const& own_entry = order(stage_).entries[entry_];
    if (plan().tasks[static_cast<std::size_t>(own_entry.task)].is_prefix) {
      follow_prefix(group, position);
      return;
    }
    for (StageId const stage : plan_.groups.stages(group, StageId::of_index(stage_))) {
      if (came_last(stage.index())) return;
    }
    lose();
  }

  /// The stage before this one ended its turn in a prefix task of the group at `time_`.
  void follow_prefix(GroupId group, std::size_t position) {
    auto const here = StageId::of_index(stage_);
    std::span<StageId const> const stages = plan_.groups.stages(group, here);
    auto const own = std::find(stages.begin(), stages.end(), here);
    if (own == stages.begin()) lose();
    std::size_t const before = (own - 1)->index();
    if (!go_to(before, courses_[before].group_tasks.at(group).at(position) + 1)) lose();
  }

  /// A wait for messages ended at `time_`.
  void follow_message(IssueEntry const& entry) {
    for (std::int32_t i = entry.first; i < entry.first + entry.count; ++i) {
      auto const transfer = static_cast<std::size_t>(i);
      if (times_.stages[stage_].transfers[transfer].end != time_) continue;
      MessageEnds const& ends =
          messages_[static_cast<std::size_t>(order(stage_).transfers[transfer].message)];
      follow_to_post(ends);
      return;
    }
    lose();
  }

  /// A message was over, or had left its sender, at `time_`.
  void follow_to_post(MessageEnds const& ends) {
    SimTime const start = times_.stages[ends.send.stage].transfers[ends.send.transfer].start;
    add_message(ends.send.stage, start);
    if (plan_.config.schedule.p2p == P2p::blocking) {
      bool const receives = ends.receive.stage == stage_;
      MessageEnds::End const& own = receives ? ends.receive : ends.send;
      MessageEnds::End const& other = receives ? ends.send : ends.receive;
      if (!go_to_post(own) && !go_to_post(other)) lose();
    } else if (!go_to_post(ends.send)) {
      follow_send_stream(ends.send);
    }
  }

  /// Overlapped: `sent` started at `time_`, when another message had left.
  void follow_send_stream(MessageEnds::End const& sent) {
    std::vector<Transfer> const& transfers = order(sent.stage).transfers;
    for (std::size_t i = sent.transfer; i-- > 0;) {
      bool const is_of_stream = transfers[i].end == Transfer::End::send &&
                                transfers[i].payload == transfers[sent.transfer].payload;
      Interval const& left = times_.stages[sent.stage].transfers[i];
      if (!is_of_stream || left.end != time_) continue;
      add_message(sent.stage, left.start);
      if (go_to_post({sent.stage, i})) return;
    }
    lose();
  }

  void add_message(std::size_t sender, SimTime start) {
    add({.what = PathPiece::What::message,
         .stage = static_cast<std::int32_t>(sender),
         .start = start,
         .end = time_});
    time_ = start;
  }

  /// Continues with the stage that posted this end at `time_`. Returns false if it posted it at
  /// another time.
  bool go_to_post(MessageEnds::End const& end) {
    std::size_t const entry = courses_[end.stage].post_of[end.transfer];
    if (courses_[end.stage].clock[entry] != time_) return false;
    stage_ = end.stage;
    entry_ = entry;
    on_side_stream_ = false;
    return true;
  }

  CostedPlan const& costed_;
  TrainingPlan const& plan_;
  RecordedTimes const& times_;
  std::vector<StageCourse> courses_;
  std::vector<MessageEnds> messages_;
  CriticalPath path_;
  // The position: the entries of `stage_` before `entry_` were over at `time_`, on one of its
  // streams.
  std::size_t stage_ = 0;
  std::size_t entry_ = 0;
  SimTime time_{0};
  bool on_side_stream_ = false;
};

}  // namespace

SimTime KindTimes::sum() const { return std::accumulate(times_.begin(), times_.end(), SimTime{0}); }

KindTimes& KindTimes::operator+=(KindTimes const& other) {
  for (std::size_t i = 0; i < times_.size(); ++i) times_[i] += other.times_[i];
  return *this;
}

KindTimes kinds_of_task(CostedPlan const& costed, StageId stage, std::size_t task, SimTime time) {
  TaskProfile const& profile = costed.tasks(stage.index())[task];
  TimeShares shares = profile.shares;
  shares -= profile.host_waits;
  KindTimes kinds = kinds_of(
      shares, exposed_communication(costed, costed.plan().stages[stage].tasks[task], profile));
  kinds[TimeKind::host_wait] = profile.host_waits.sum();
  kinds[TimeKind::data_parallel] += time - profile.duration;
  return kinds;
}

KindTimes kinds_of_busiest_stage(CostedPlan const& costed,
                                 RecordedTimes const& times,
                                 Simulation const& simulation) {
  std::size_t const stage = busiest_stage(simulation);
  StagePlan const& plan = costed.plan().stages[StageId::of_index(stage)];
  std::vector<TimeShares> exposed_by_task;
  for (std::size_t task = 0; task < plan.tasks.size(); ++task) {
    exposed_by_task.push_back(
        exposed_communication(costed, plan.tasks[task], costed.tasks(stage)[task]));
  }
  TimeShares shares = simulation.breakdown.shares;
  TimeShares exposed;
  std::vector<IssueEntry> const& entries = times.stages[stage].order.entries;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].kind != IssueEntry::Kind::run) continue;
    auto const task = static_cast<std::size_t>(entries[i].task);
    if (plan.tasks[task].stream != Stream::compute) continue;
    exposed += exposed_by_task[task];
    Interval const& ran = times.stages[stage].entries[i];
    SimTime const slowed = ran.end - ran.start - costed.tasks(stage)[task].duration;
    shares.backward -= slowed;  // simulate() counts it there
    shares.data_parallel += slowed;
  }
  KindTimes kinds = kinds_of(shares, exposed);
  kinds[TimeKind::pipeline_transfer] = simulation.breakdown.transfer;
  kinds[TimeKind::bubble] = simulation.breakdown.bubble;
  kinds[TimeKind::host_wait] = simulation.breakdown.host_wait;
  return kinds;
}

std::size_t busiest_stage(Simulation const& simulation) {
  auto const busiest =
      std::max_element(simulation.stages.begin(), simulation.stages.end(),
                       [](StageResult const& a, StageResult const& b) { return a.busy < b.busy; });
  return static_cast<std::size_t>(busiest - simulation.stages.begin());
}

CriticalPath find_critical_path(CostedPlan const& costed, RecordedTimes const& times) {
  return PathSearch{costed, times}.find();
}

}  // namespace stagecraft
