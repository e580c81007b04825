#include "libsim/engine/rank_track.hpp"

#include <algorithm>
#include <limits>

#include "libsim/plan/stage_exchanges.hpp"
#include "libsim/plan/step_program.hpp"

namespace stagecraft {
namespace {

/// Takes a stage's order as a track, and follows its memory at the same time.
class TrackSink {
 public:
  TrackSink(TrainingPlan const& plan,
            ScheduleLoop const& loop,
            TaskCosts& prices,
            MessageMoves& messages,
            Tracks& tracks,
            StagePlan& rank)
      : loop_{loop},
        prices_{prices},
        messages_{messages},
        tracks_{tracks},
        rank_{rank},
        tasks_{plan, loop.shape, rank},
        memory_{resident_memory(rank)},
        is_blocking_{loop.shape.p2p == P2p::blocking},
        first_end_{static_cast<std::int32_t>(tracks.ends.size())},
        lap_begin_{loop.backwards_before(rank.stage)} {}

  void run(ChunkRun const& run) {
    if (run.kind == ChunkRun::Kind::forward) {
      if (loop_.has_loop()) mark_border();
      issue(tasks_.forward(run));
      return;
    }
    ++backwards_;
    last_backward_ = run;
    if (tasks_.starts_reduction(run)) {
      tasks_.append_reduced_backward(run);
      take_steps();
      can_repeat_ = false;
    } else {
      issue(tasks_.backward(run));
    }
  }

  void transfer(Transfer const& transfer, int row) {
    tracks_.ends.emplace_back(row, transfer.peer, transfer.end);
    code_.add(transfer.payload, transfer.end);
  }

  void post(std::int32_t first, std::int32_t count) {
    if (loop_.has_loop() && !is_in_lap_) count_ends(first, count, Transfer::End::send, 1);
    if (is_blocking_) return;  // the wait that follows directly does both
    add(TrackStep::Kind::post, messages_.of(MessageMoves::Kind::post, code_), first, count);
    code_ = {};
  }

  void wait(std::int32_t first, std::int32_t count) {
    if (loop_.has_loop() && !is_in_lap_) count_ends(first, count, Transfer::End::receive, -1);
    if (!is_blocking_) {
      MessageMoves::Code const code = code_of(first, count);
      add(TrackStep::Kind::wait, messages_.of(MessageMoves::Kind::wait, code), first, count);
      return;
    }
    add(TrackStep::Kind::exchange, messages_.of(MessageMoves::Kind::exchange, code_), first, count);
    code_ = {};
  }

  void begin_stretch() {
    can_repeat_ = tasks_.are_alike();
    stretch_.moves.clear();
    stretch_.first_step = tracks_.steps.size();
    stretch_.first_end = tracks_.ends.size();
    stretch_.backwards = backwards_;
    stretch_.memory = memory_;
  }

  int repeat(int times) {
    bool const is_before_lap = loop_.has_loop() && !is_in_lap_;
    int more = can_repeat_ ? times - 1 : 0;
    if (backwards_ > stretch_.backwards) {
      if (more > 0 && loop_.has_loop()) more = std::min(more, backwards_to_border() - 1);
      if (more > 0) more = tasks_.repeat_backward(last_backward_, more);
      backwards_ += more;
    }
    if (more == 0) return 1;
    // The first time has been followed; then the last.
    memory_.repeat_since(stretch_.memory, more - 1);
    for (Move const& move : stretch_.moves) follow(move);
    if (is_before_lap) {
      for (std::size_t i = stretch_.first_end; i < tracks_.ends.size(); ++i) {
        TrackEnd const& end = tracks_.ends[i];
        tracks_.crossing[static_cast<std::size_t>(end.row)] += end.sends() ? more : -more;
      }
    }
    auto const steps = static_cast<std::int16_t>(tracks_.steps.size() - stretch_.first_step);
    tracks_.steps.push_back({.kind = TrackStep::Kind::repeat, .count = steps, .index = more + 1});
    return more + 1;
  }

  /// Takes the steps that have gathered in the rank plan.
  void take_steps() {
    for (IssueEntry const& step : rank_.steps) issue(step.task);
    rank_.steps.clear();
  }

  /// Follows the memory of steps that stay in the rank plan.
  void pass_over(std::vector<IssueEntry> const& steps) {
    for (IssueEntry const& step : steps) {
      if (step.kind == IssueEntry::Kind::run) follow(issued(step.task).move);
    }
  }

  RankTrack finish() && { return {.durations = std::move(durations_), .memory = memory_.result()}; }

 private:
  void mark_border() {
    if (backwards_ == lap_begin_ && !is_in_lap_) {
      at_lap_begin_ = memory_.now();
      is_in_lap_ = true;
    } else if (backwards_ == lap_begin_ + loop_.lap_backwards && !is_after_lap_) {
      tracks_.laps_are_level = tracks_.laps_are_level && memory_.now() == at_lap_begin_;
      is_after_lap_ = true;
    } else {
      return;
    }
    tracks_.steps.push_back({.kind = TrackStep::Kind::border});
    stretch_.first_step = tracks_.steps.size();  // a border is before the first step of a stretch
  }

  /// Backwards from the beginning of the stretch to the next border, or many if there is none left.
  int backwards_to_border() const {
    int const border = is_in_lap_ ? lap_begin_ + loop_.lap_backwards : lap_begin_;
    return is_after_lap_ ? std::numeric_limits<int>::max() : border - stretch_.backwards;
  }

  /// What a step means to memory.
  struct Move {
    MemoryMove const* memory;
    int in_flight;  ///< 1: begins a chunk's stay, -1: ends it
  };
  /// What issuing a task means here.
  struct Issued {
    Move move;
    TrackStep::Kind kind;
  };
  /// What has been written since a stretch began, and how things stood then.
  struct Stretch {
    std::vector<Move> moves;
    std::size_t first_step = 0;
    std::size_t first_end = 0;
    int backwards = 0;
    MemoryWalk memory{CategoryBytes{}};
  };

  Issued const& issued(std::int32_t number) {
    auto const index = static_cast<std::size_t>(number);
    while (issued_.size() <= index) {
      Task const& task = rank_.tasks[issued_.size()];
      TaskCost const& price = prices_.of(rank_, task);
      bool const on_compute = task.stream == Stream::compute;
      durations_.push_back(price.duration);
      int const in_flight = task.kind == Task::Kind::forward ? 1 : ends_backward(task) ? -1 : 0;
      issued_.push_back({.move = {.memory = price.memory, .in_flight = in_flight},
                         .kind = on_compute ? TrackStep::Kind::run : TrackStep::Kind::reduce});
    }
    return issued_[index];
  }

  void follow(Move const& move) {
    memory_.move(*move.memory, 0);
    if (move.in_flight > 0) memory_.begin_chunk();
    if (move.in_flight < 0) memory_.end_chunk();
  }

  void issue(std::int32_t number) {
    Issued const& task = issued(number);
    follow(task.move);
    stretch_.moves.push_back(task.move);
    tracks_.steps.push_back({.kind = task.kind, .index = number});
  }

  void add(TrackStep::Kind kind, MemoryMove const& move, std::int32_t first, std::int32_t count) {
    follow({.memory = &move, .in_flight = 0});
    stretch_.moves.push_back({.memory = &move, .in_flight = 0});
    tracks_.steps.push_back(
        {.kind = kind, .count = static_cast<std::int16_t>(count), .index = first_end_ + first});
  }

  MessageMoves::Code code_of(std::int32_t first, std::int32_t count) const {
    auto const boundaries = static_cast<std::int32_t>(tracks_.crossing.size() / 2);
    MessageMoves::Code code;
    for (std::int32_t i = first; i < first + count; ++i) {
      code.add(
          end(i).row < boundaries ? Transfer::Payload::activation : Transfer::Payload::gradient,
          end(i).sends() ? Transfer::End::send : Transfer::End::receive);
    }
    return code;
  }

  /// Counts what is sent, or received, before the lap begins.
  void count_ends(std::int32_t first, std::int32_t count, Transfer::End counted, int by) {
    for (std::int32_t i = first; i < first + count; ++i) {
      if (end(i).sends() != (counted == Transfer::End::send)) continue;
      tracks_.crossing[static_cast<std::size_t>(end(i).row)] += by;
    }
  }

  TrackEnd const& end(std::int32_t i) const {
    return tracks_.ends[static_cast<std::size_t>(first_end_) + static_cast<std::size_t>(i)];
  }

  ScheduleLoop const& loop_;
  TaskCosts& prices_;
  MessageMoves& messages_;
  Tracks& tracks_;
  StagePlan& rank_;
  StageTasks tasks_;
  MemoryWalk memory_;
  std::vector<SimTime> durations_;
  std::vector<Issued> issued_;  ///< by task
  Stretch stretch_;
  ChunkRun last_backward_;
  bool can_repeat_ = false;
  MessageMoves::Code code_;  ///< of the transfers since the last post
  CategoryBytes at_lap_begin_;
  bool is_blocking_;
  std::int32_t first_end_;
  int lap_begin_;
  int backwards_ = 0;
  bool is_in_lap_ = false;  ///< or after it
  bool is_after_lap_ = false;
};

RankTrack lay_track(TrainingPlan const& plan,
                    ScheduleLoop const& loop,
                    VirtualOrder const& order,
                    TaskCosts& prices,
                    MessageMoves& messages,
                    Tracks& tracks,
                    StagePlan& rank) {
  std::size_t const first_step = tracks.steps.size();
  TrackSink sink{plan, loop, prices, messages, tracks, rank};
  append_begin_of_step(rank, plan);
  sink.take_steps();
  write_stage(loop.shape, order, rank.stage, sink);
  std::size_t const end_step = tracks.steps.size();
  append_end_of_step(rank, plan);
  sink.pass_over(rank.steps);
  RankTrack track = std::move(sink).finish();
  track.first_step = first_step;
  track.end_step = end_step;
  return track;
}

}  // namespace

Tracks lay_tracks(TrainingPlan& plan, ScheduleLoop const& loop, TaskCosts& prices) {
  Tracks tracks;
  ScheduleShape const& shape = loop.shape;
  auto const stages = static_cast<std::size_t>(shape.stages);
  std::size_t const runs = 2 * stages * static_cast<std::size_t>(shape.microbatches) *
                           static_cast<std::size_t>(shape.chunks);
  constexpr std::size_t around = 8;  // begin of the iteration, borders, exchanges at the ends
  tracks.steps.reserve(3 * runs + around * stages);
  tracks.ends.reserve(2 * runs);
  tracks.crossing.resize(static_cast<std::size_t>(message_rows(shape)));
  tracks.ranks.reserve(stages);
  VirtualOrder const order{shape};
  MessageMoves messages{plan};
  for (StagePlan& rank : plan.stages) {
    tracks.ranks.push_back(lay_track(plan, loop, order, prices, messages, tracks, rank));
  }
  return tracks;
}

}  // namespace stagecraft
