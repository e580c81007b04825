#include "libsim/search/stage_moments.hpp"

#include <algorithm>
#include <optional>

#include "libsim/memory/message_buffers.hpp"
#include "libsim/plan/plan_outline.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/schedule/store_window.hpp"
#include "libsim/training/run_schedule.hpp"

namespace stagecraft {
namespace {

/// Adds an instant, and keeps only those that may hold most.
void note(std::vector<Holding>& instants, Holding const& now) {
  for (Holding const& other : instants) {
    if (now.holds_no_more(other)) return;
  }
  std::erase_if(instants, [&](Holding const& other) { return other.holds_no_more(now); });
  instants.push_back(now);
}

/// What a stage holds and has done up to an instant of its issue order.
struct Progress {
  Holding held;
  ExchangeCounts exchanges;
  int forwards = 0;
  int backwards = 0;

  /// The progress if what was done since `before` is done another `times` times.
  Progress repeated_since(Progress const& before, int times) const {
    Progress then = *this;
    then.held.repeat_since(before.held, times);
    auto const repeat = [times](auto& now, auto old) { now += times * (now - old); };
    repeat(then.exchanges.with_next, before.exchanges.with_next);
    repeat(then.exchanges.with_previous, before.exchanges.with_previous);
    repeat(then.exchanges.with_both, before.exchanges.with_both);
    repeat(then.forwards, before.forwards);
    repeat(then.backwards, before.backwards);
    return then;
  }
  friend bool operator==(Progress const&, Progress const&) = default;
};

/// Visits the entries of a stage's program and notes its moments. Of repeated entries, the runs
/// between two that changed the same and the last run are skipped: what is held changes linearly
/// there, so it is largest at one end.
class MomentReplay {
 public:
  MomentReplay(TrainingPlan const& plan,
               PipelineSchedule const& schedule,
               StageId stage,
               StageContent const& content)
      : plan_{plan},
        schedule_{schedule},
        program_{schedule.stages[stage]},
        content_{content},
        runs_{schedule.shape.microbatches * schedule.shape.chunks},
        is_blocking_{schedule.shape.p2p == P2p::blocking},
        keeps_output_{!plan.config.memory.output_deallocation},
        now_{Holding{content.distinct.size()}, {}, 0, 0} {
    moments_.before_forward.resize(content.distinct.size());
    moments_.before_backward.resize(content.distinct.size());
    moments_.before_input_gradient.resize(content.distinct.size());
    moments_.before_weight_gradient.resize(content.distinct.size());
    moments_.window = store_window(schedule.shape, stage);
  }

  StageMoments replay() && {
    take(0, static_cast<std::int32_t>(program_.entries.size()));
    moments_.exchanges = now_.exchanges;
    return std::move(moments_);
  }

 private:
  void take(std::int32_t begin, std::int32_t end) {
    for (std::int32_t i = begin; i < end; ++i) {
      IssueEntry const& entry = program_.entries[static_cast<std::size_t>(i)];
      if (entry.kind == IssueEntry::Kind::repeat) {
        repeat(i - entry.count, i, entry.times - 1);
      } else {
        take(entry);
      }
    }
  }

  void repeat(std::int32_t begin, std::int32_t end, int times) {
    std::optional<Progress> expected;
    for (int more = times; more > 0; --more) {
      Progress const before = now_;
      take(begin, end);
      int const skipped = more - 2;
      if (expected == now_ && skipped > 0) {
        Progress const then = now_.repeated_since(before, skipped);
        if (!is_warm_between(now_, then)) {
          now_ = then;
          more = 2;
        }
      }
      expected = now_.repeated_since(before, 1);
    }
  }

  /// Whether the first window's last forward is between two instants.
  bool is_warm_between(Progress const& a, Progress const& b) const {
    return a.backwards == 0 && a.forwards < moments_.window && moments_.window <= b.forwards;
  }

  void take(IssueEntry const& entry) {
    switch (entry.kind) {
      case IssueEntry::Kind::run:
        run(schedule_.run_of(entry));
        break;
      case IssueEntry::Kind::wait:
        if (is_blocking_ && now_.forwards > 0 && now_.backwards < runs_) count_exchange(entry);
        move(entry);
        break;
      case IssueEntry::Kind::post:
        move(entry);
        break;
      case IssueEntry::Kind::drain:
      case IssueEntry::Kind::repeat:
        break;
    }
  }

  void run(ChunkRun const& run) {
    if (run.pass == Pass::weight_gradient) {
      int const chunk = content_.of_chunk[run.chunk.index()];
      note(moments_.before_weight_gradient[static_cast<std::size_t>(chunk)], now_.held);
      --now_.held.for_weights(chunk);
      return;
    }
    bool const is_forward = run.pass == Pass::forward;
    bool const is_split = run.pass == Pass::input_gradient;
    int const of = content_.of_chunk[run.chunk.index()];
    if (is_forward && now_.forwards + 1 == moments_.window && now_.backwards == 0) {
      moments_.warm = now_.held;
      moments_.after_warm = of;
    }
    auto& instants = is_forward ? moments_.before_forward
                     : is_split ? moments_.before_input_gradient
                                : moments_.before_backward;
    note(instants[static_cast<std::size_t>(of)], now_.held);
    now_.held.chunks(of) += is_forward ? 1 : -1;
    if (is_split) ++now_.held.for_weights(of);
    ++(is_forward ? now_.forwards : now_.backwards);
    ChunkContent const& content = content_.distinct[static_cast<std::size_t>(of)];
    bool const has_sent = !content.has_head && !content.keeps_output;
    if (!is_forward && keeps_output_ && has_sent) --now_.held.whole_messages();
  }

  void count_exchange(IssueEntry const& entry) {
    bool next = false;
    bool previous = false;
    for (std::int32_t i = entry.first; i < entry.first + entry.count; ++i) {
      Transfer const& transfer = program_.transfers[static_cast<std::size_t>(i)];
      bool const is_up = (transfer.payload == Transfer::Payload::activation) ==
                         (transfer.end == Transfer::End::send);
      (is_up ? next : previous) = true;
    }
    ++(next && previous ? now_.exchanges.with_both
       : next           ? now_.exchanges.with_next
                        : now_.exchanges.with_previous);
  }

  void move(IssueEntry const& entry) {
    for (std::int32_t i = entry.first; i < entry.first + entry.count; ++i) {
      for (MessageMove const& change :
           message_moves(plan_, entry.kind, program_.transfers[static_cast<std::size_t>(i)])) {
        auto& buffers = change.buffer == MessageBuffer::whole ? now_.held.whole_messages()
                                                              : now_.held.message_pieces();
        buffers += change.allocates ? 1 : -1;
        if (change.allocates) note(moments_.in_messages, now_.held);
      }
    }
  }

  TrainingPlan const& plan_;
  PipelineSchedule const& schedule_;
  StageProgram const& program_;
  StageContent const& content_;
  int runs_;
  bool is_blocking_;
  bool keeps_output_;
  StageMoments moments_;
  Progress now_;
};

}  // namespace

std::int64_t StageMoments::peak(StageLoad const& load, MessageSizes const& sizes) const {
  std::int64_t most = 0;
  auto const look_at = [&](std::vector<Holding> const& instants, std::int64_t running) {
    for (Holding const& held : instants) most = std::max(most, running + held.bytes(load, sizes));
  };
  for (std::size_t i = 0; i < load.size(); ++i) {
    look_at(before_forward[i], load[i].forward.peak);
    look_at(before_backward[i], load[i].backward.peak);
    look_at(before_input_gradient[i], load[i].input_gradient.peak);
    look_at(before_weight_gradient[i], load[i].weight_gradient.peak);
  }
  look_at(in_messages, 0);
  return most;
}

ScheduleMoments make_stage_moments(TrainingConfig const& config, ArrangedStages const& contents) {
  TrainingPlan const plan = make_outline(config);
  ScheduleShape const shape = checked_shape(schedule_shape(config));
  PipelineSchedule const schedule = lay_out_checked(shape);
  ScheduleMoments moments;
  moments.passes = splits_backward(shape) ? BackwardPasses::split : BackwardPasses::whole;
  moments.stages.reserve(schedule.stages.size());
  for (StageId const stage : schedule.stages.ids()) {
    moments.stages.push_back(MomentReplay{plan, schedule, stage, contents[stage]}.replay());
  }
  return moments;
}

std::shared_ptr<ScheduleMoments const> StageMomentsCache::of(TrainingConfig const& config,
                                                             ArrangedStages const& stages) {
  TrainingPlan const plan = make_outline(config);
  Key key{{static_cast<int>(config.schedule.kind), config.parallel.pipeline,
           config.parallel.interleave, static_cast<int>(microbatches(config)),
           plan.scatters_messages() ? 1 : 0, static_cast<int>(config.schedule.p2p)},
          {}};
  for (StageId const stage : stages.stage_ids()) {
    StageContent const& content = stages[stage];
    key.second.insert(key.second.end(), content.of_chunk.begin(), content.of_chunk.end());
  }
  {
    std::lock_guard const lock{mutex_};
    auto const found = known_.find(key);
    if (found != known_.end()) return found->second;
  }
  auto made = std::make_shared<ScheduleMoments const>(make_stage_moments(config, stages));
  std::lock_guard const lock{mutex_};
  return known_.try_emplace(std::move(key), std::move(made)).first->second;
}

}  // namespace stagecraft
