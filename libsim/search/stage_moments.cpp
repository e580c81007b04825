#include "libsim/search/stage_moments.hpp"

#include <algorithm>

#include "libsim/plan/message_buffers.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/plan/stage_tasks.hpp"

namespace stagecraft {
namespace {

/// Keeps the largest of what is noted.
void note(std::vector<Holding>& instants, Holding const& now) {
  for (Holding const& other : instants) {
    if (now.holds_no_more(other)) return;
  }
  std::erase_if(instants, [&](Holding const& other) { return other.holds_no_more(now); });
  instants.push_back(now);
}

/// Goes through a stage's program and notes its moments. The steady-state loop is gone through once
/// if it leaves the stage holding what it held before.
class MomentWalk {
 public:
  MomentWalk(TrainingPlan const& plan,
             PipelineSchedule const& schedule,
             int stage,
             StageContent const& content)
      : plan_{plan},
        schedule_{schedule},
        program_{schedule.stages[static_cast<std::size_t>(stage)]},
        content_{content},
        runs_{schedule.shape.microbatches * schedule.shape.chunks},
        is_blocking_{schedule.shape.p2p == P2p::blocking},
        keeps_output_{!plan.config.memory.output_deallocation},
        now_{content.distinct.size()} {
    moments_.before_forward.resize(content.distinct.size());
    moments_.before_backward.resize(content.distinct.size());
    moments_.window = store_window(schedule.shape, stage);
  }

  StageMoments walk() && {
    auto const end = static_cast<std::int32_t>(program_.entries.size());
    if (program_.steady_loop == StageProgram::none) {
      take(0, end);
    } else {
      take(0, program_.loop_begin());
      loop(program_.loop_begin(), program_.steady_loop);
      take(program_.steady_loop + 1, end);
    }
    moments_.exchanges = exchanges_;
    return std::move(moments_);
  }

 private:
  void take(std::int32_t begin, std::int32_t end) {
    auto const visit = [&](IssueEntry const& entry, std::int32_t /*advance*/) { take(entry); };
    visit_entries(program_, begin, end, 0, visit);
  }

  void loop(std::int32_t begin, std::int32_t end) {
    int const more = program_.entries[static_cast<std::size_t>(end)].times - 1;
    Holding const held = now_;
    ExchangeCounts const before = exchanges_;
    int const forwards = forwards_;
    int const backwards = backwards_;
    take(begin, end);
    if (held != now_) {
      for (int time = 0; time < more; ++time) take(begin, end);
      return;
    }
    auto const repeat = [more](auto& now, auto then) { now += more * (now - then); };
    repeat(exchanges_.with_next, before.with_next);
    repeat(exchanges_.with_previous, before.with_previous);
    repeat(exchanges_.with_both, before.with_both);
    repeat(forwards_, forwards);
    repeat(backwards_, backwards);
  }

  void take(IssueEntry const& entry) {
    switch (entry.kind) {
      case IssueEntry::Kind::run:
        run(schedule_.run_of(entry));
        break;
      case IssueEntry::Kind::wait:
        if (is_blocking_ && forwards_ > 0 && backwards_ < runs_) count_exchange(entry);
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
    bool const is_forward = run.part == Part::forward;
    int const of = content_.of_chunk[static_cast<std::size_t>(run.chunk)];
    if (is_forward && forwards_ + 1 == moments_.window && backwards_ == 0) {
      moments_.warm = now_;
      moments_.after_warm = of;
    }
    auto& instants = is_forward ? moments_.before_forward : moments_.before_backward;
    note(instants[static_cast<std::size_t>(of)], now_);
    now_.chunks(of) += is_forward ? 1 : -1;
    ++(is_forward ? forwards_ : backwards_);
    bool const has_head = content_.distinct[static_cast<std::size_t>(of)].has_head;
    if (!is_forward && keeps_output_ && !has_head) --now_.whole_messages();
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
    ++(next && previous ? exchanges_.with_both
       : next           ? exchanges_.with_next
                        : exchanges_.with_previous);
  }

  void move(IssueEntry const& entry) {
    for (std::int32_t i = entry.first; i < entry.first + entry.count; ++i) {
      for (MessageMove const& change :
           message_moves(plan_, entry.kind, program_.transfers[static_cast<std::size_t>(i)])) {
        auto& buffers =
            change.buffer == MessageBuffer::whole ? now_.whole_messages() : now_.message_pieces();
        buffers += change.allocates ? 1 : -1;
        if (change.allocates) note(moments_.in_messages, now_);
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
  Holding now_;
  ExchangeCounts exchanges_;
  int forwards_ = 0;
  int backwards_ = 0;
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
  }
  look_at(in_messages, 0);
  return most;
}

std::vector<StageMoments> make_stage_moments(TrainingConfig const& config,
                                             ArrangedStages const& contents) {
  TrainingPlan const plan = make_outline(config);
  PipelineSchedule const schedule = make_pipeline_schedule(schedule_shape(config));
  std::vector<StageMoments> stages;
  stages.reserve(schedule.stages.size());
  for (int stage = 0; stage < schedule.shape.stages; ++stage) {
    stages.push_back(MomentWalk{plan, schedule, stage, contents[stage]}.walk());
  }
  return stages;
}

std::shared_ptr<std::vector<StageMoments> const> StageMomentsCache::of(
    TrainingConfig const& config, ArrangedStages const& stages) {
  TrainingPlan const plan = make_outline(config);
  Key key{
      {static_cast<int>(config.schedule.kind), config.parallel.pipeline, config.parallel.interleave,
       static_cast<int>(microbatches(config)), plan.scatters_messages() ? 1 : 0},
      {}};
  for (int stage = 0; stage < stages.stages(); ++stage) {
    StageContent const& content = stages[stage];
    key.second.insert(key.second.end(), content.of_chunk.begin(), content.of_chunk.end());
  }
  {
    std::lock_guard const lock{mutex_};
    auto const found = known_.find(key);
    if (found != known_.end()) return found->second;
  }
  auto made = std::make_shared<std::vector<StageMoments> const>(make_stage_moments(config, stages));
  std::lock_guard const lock{mutex_};
  return known_.try_emplace(std::move(key), std::move(made)).first->second;
}

}  // namespace stagecraft
