#include "libsim/search/stage_moments.hpp"

#include <algorithm>

#include "libsim/engine/schedule_loop.hpp"
#include "libsim/plan/message_buffers.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/plan/stage_exchanges.hpp"
#include "libsim/plan/stage_order.hpp"
#include "libsim/plan/stage_tasks.hpp"

namespace stagecraft {
namespace {

constexpr std::size_t in_messages = 4;

constexpr std::size_t instant_of(ChunkRun::Kind kind, ChunkClass of) {
  return (kind == ChunkRun::Kind::forward ? 0U : 2U) + (of == ChunkClass::special ? 1U : 0U);
}

bool holds_no_more(Holding const& a, Holding const& b) {
  return a.regular <= b.regular && a.special <= b.special && a.wholes <= b.wholes &&
         a.pieces <= b.pieces;
}

bool is_same(Holding const& a, Holding const& b) {
  return holds_no_more(a, b) && holds_no_more(b, a);
}

/// Keeps the largest of what is noted.
void note(std::vector<Holding>& instants, Holding const& now) {
  for (Holding const& other : instants) {
    if (holds_no_more(now, other)) return;
  }
  std::erase_if(instants, [&](Holding const& other) { return holds_no_more(other, now); });
  instants.push_back(now);
}

/// Takes a stage's order, one lap in the place of all, and notes its moments.
class MomentSink {
 public:
  MomentSink(TrainingPlan const& plan, ScheduleLoop const& loop, int stage)
      : plan_{plan},
        loop_{loop},
        stage_{stage},
        runs_{loop.shape.microbatches * loop.shape.chunks},
        is_blocking_{loop.shape.p2p == P2p::blocking},
        keeps_output_{!plan.config.memory.output_deallocation} {
    moments_.window = store_window(loop.shape, stage);
  }

  void run(ChunkRun const& run) {
    bool const is_forward = run.kind == ChunkRun::Kind::forward;
    ChunkClass const of = class_of(run.chunk);
    if (is_forward && forwards_ + 1 == moments_.window && backwards_ == 0) {
      moments_.warm = now_;
      moments_.after_warm = of;
    }
    if (is_forward && loop_.has_loop()) mark_border();
    note(moments_.instants[instant_of(run.kind, of)], now_);
    int const change = is_forward ? 1 : -1;
    (of == ChunkClass::special ? now_.special : now_.regular) += change;
    ++(is_forward ? forwards_ : backwards_);
    bool const has_head = stage_ + 1 == loop_.shape.stages && run.chunk + 1 == loop_.shape.chunks;
    if (!is_forward && keeps_output_ && !has_head) --now_.wholes;
  }

  void transfer(Transfer const& transfer, int /*row*/) { transfers_.push_back(transfer); }
  void post(std::int32_t first, std::int32_t count) {
    if (!is_blocking_) move(IssueEntry::Kind::post, first, count);
  }
  void wait(std::int32_t first, std::int32_t count) {
    if (is_blocking_) {
      move(IssueEntry::Kind::post, first, count);
      if (forwards_ > 0 && backwards_ < runs_) count_exchange(first, count);
    }
    move(IssueEntry::Kind::wait, first, count);
  }
  void begin_stretch() {}
  int repeat(int /*times*/) { return 1; }

  bool laps_are_level() const { return laps_are_level_; }
  StageMoments finish() && {
    moments_.exchanges = all_;
    auto const more = loop_.laps - 1;
    moments_.exchanges.with_next += more * lap_.with_next;
    moments_.exchanges.with_previous += more * lap_.with_previous;
    moments_.exchanges.with_both += more * lap_.with_both;
    return std::move(moments_);
  }

 private:
  ChunkClass class_of(int chunk) const {
    bool const is_first = stage_ == 0 && chunk == 0;
    bool const is_last = stage_ + 1 == loop_.shape.stages && chunk + 1 == loop_.shape.chunks;
    return is_first || is_last ? ChunkClass::special : ChunkClass::regular;
  }

  void mark_border() {
    int const begin = loop_.backwards_before(stage_);
    if (backwards_ == begin && !is_in_lap_) {
      at_lap_begin_ = now_;
      is_in_lap_ = true;
    } else if (backwards_ == begin + loop_.lap_backwards && is_in_lap_ && !is_after_lap_) {
      laps_are_level_ = is_same(now_, at_lap_begin_);
      is_after_lap_ = true;
    }
  }

  void count_exchange(std::int32_t first, std::int32_t count) {
    bool next = false;
    bool previous = false;
    for (std::int32_t i = first; i < first + count; ++i) {
      Transfer const& transfer = transfers_[static_cast<std::size_t>(i)];
      bool const is_up = (transfer.payload == Transfer::Payload::activation) ==
                         (transfer.end == Transfer::End::send);
      (is_up ? next : previous) = true;
    }
    auto const add = [&](ExchangeCounts& counts) {
      ++(next && previous ? counts.with_both : next ? counts.with_next : counts.with_previous);
    };
    add(all_);
    if (is_in_lap_ && !is_after_lap_) add(lap_);
  }

  void move(IssueEntry::Kind kind, std::int32_t first, std::int32_t count) {
    for (std::int32_t i = first; i < first + count; ++i) {
      for (MessageMove const& change :
           message_moves(plan_, kind, transfers_[static_cast<std::size_t>(i)])) {
        (change.buffer == MessageBuffer::whole ? now_.wholes : now_.pieces) +=
            change.allocates ? 1 : -1;
        if (change.allocates) note(moments_.instants[in_messages], now_);
      }
    }
  }

  TrainingPlan const& plan_;
  ScheduleLoop const& loop_;
  int stage_;
  int runs_;
  bool is_blocking_;
  bool keeps_output_;
  std::vector<Transfer> transfers_;
  StageMoments moments_;
  Holding now_;
  Holding at_lap_begin_;
  ExchangeCounts all_;
  ExchangeCounts lap_;
  int forwards_ = 0;
  int backwards_ = 0;
  bool is_in_lap_ = false;  ///< or after it
  bool is_after_lap_ = false;
  bool laps_are_level_ = true;
};

/// Nothing where a lap does not stand for all.
std::vector<StageMoments> moments_of(TrainingPlan const& plan, ScheduleLoop const& loop) {
  std::vector<StageMoments> stages;
  VirtualOrder const order{loop.shape};
  for (int stage = 0; stage < loop.shape.stages; ++stage) {
    MomentSink sink{plan, loop, stage};
    write_stage(loop.shape, order, stage, sink);
    if (!sink.laps_are_level()) return {};
    stages.push_back(std::move(sink).finish());
  }
  return stages;
}

}  // namespace

std::int64_t StageMoments::peak(StageLoad const& load, MessageSizes const& sizes) const {
  std::array<std::int64_t, 5> const running{load.regular.forward.peak, load.special.forward.peak,
                                            load.regular.backward.peak, load.special.backward.peak,
                                            0};
  std::int64_t most = 0;
  for (std::size_t kind = 0; kind < instants.size(); ++kind) {
    for (Holding const& held : instants[kind]) {
      most = std::max(most, running[kind] + held.regular * load.regular.forward.net +
                                held.special * load.special.forward.net +
                                held.wholes * sizes.whole + held.pieces * sizes.piece);
    }
  }
  return most;
}

std::vector<StageMoments> make_stage_moments(TrainingConfig const& config) {
  TrainingPlan const plan = make_outline(config);
  ScheduleShape const shape = checked_shape(schedule_shape(config));
  std::vector<StageMoments> stages = moments_of(plan, find_loop(shape));
  return stages.empty() ? moments_of(plan, {.shape = shape}) : stages;
}

std::shared_ptr<std::vector<StageMoments> const> StageMomentsCache::of(
    TrainingConfig const& config) {
  TrainingPlan const plan = make_outline(config);
  Key const key{static_cast<int>(config.schedule.kind), config.parallel.pipeline,
                config.parallel.interleave, static_cast<int>(microbatches(config)),
                plan.scatters_messages() ? 1 : 0};
  {
    std::lock_guard const lock{mutex_};
    auto const found = known_.find(key);
    if (found != known_.end()) return found->second;
  }
  auto made = std::make_shared<std::vector<StageMoments> const>(make_stage_moments(config));
  std::lock_guard const lock{mutex_};
  return known_.try_emplace(key, std::move(made)).first->second;
}

}  // namespace stagecraft
