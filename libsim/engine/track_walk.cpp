#include "libsim/engine/track_walk.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <stdexcept>

#include "libsim/engine/lap_history.hpp"
#include "libsim/engine/message_walks.hpp"
#include "libsim/plan/stage_exchanges.hpp"

namespace stagecraft {
namespace {

/// Walks the ranks along their tracks. Each goes as far as it can; a message wakes who waits for
/// it.
template <class Messages>
class TrackWalk {
 public:
  TrackWalk(TrackWalkInput const& input, Messages messages)
      : messages_{std::move(messages)},
        slowdown_{input.slowdown_millionths},
        laps_{input.loop->laps} {
    Tracks const& tracks = *input.tracks;
    ranks_.resize(tracks.ranks.size());
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      RankTrack const& track = tracks.ranks[i];
      ranks_[i].step = tracks.steps.data() + track.first_step;
      ranks_[i].end = tracks.steps.data() + track.end_step;
      ranks_[i].durations = track.durations.data();
    }
    ready_.reserve(ranks_.size());
    if (laps_ > 1 && messages_.can_tell_state(tracks.crossing)) {
      std::vector<std::int32_t> widths;
      widths.reserve(ranks_.size());
      for (std::size_t i = 0; i < ranks_.size(); ++i) widths.push_back(1 + messages_.width(i));
      history_.emplace(widths, laps_);
    }
  }

  TrackEnds finish() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      // What this rank has made possible comes first: its messages are still in the cache.
      ready_.push_back(static_cast<std::int32_t>(i));
      while (!ready_.empty()) {
        auto const next = static_cast<std::size_t>(ready_.back());
        ready_.pop_back();
        advance(next);
      }
    }
    TrackEnds ends;
    ends.laps_left_out = laps_left_out_;
    for (Rank const& rank : ranks_) {
      if (rank.step != rank.end) throw std::logic_error("a track does not come to its end");
      ends.ranks.push_back({.clock = rank.clock + left_out_,
                            .data_parallel_idle = rank.data_parallel_idle + left_out_});
      ends.busy.push_back(rank.busy + laps_left_out_ * rank.busy_in_lap);
    }
    return ends;
  }

 private:
  struct Rank {
    TrackStep const* step = nullptr;  ///< next
    TrackStep const* end = nullptr;
    TrackStep const* lap = nullptr;  ///< first of the lap, once there
    SimTime const* durations = nullptr;
    SimTime clock{0};
    SimTime busy{0};
    SimTime data_parallel_idle{0};
    SimTime busy_in_lap{0};
    std::int32_t times_left = 0;  ///< of the stretch that it repeats; 0 where it is in none
    int border = -1;              ///< last one passed
  };

  void advance(std::size_t number) {
    Rank& rank = ranks_[number];
    while (rank.step != rank.end) {
      TrackStep const& step = *rank.step++;
      switch (step.kind) {
        case TrackStep::Kind::run:
          run(rank, rank.durations[step.index]);
          break;
        case TrackStep::Kind::reduce:
          rank.data_parallel_idle =
              std::max(rank.clock, rank.data_parallel_idle) + rank.durations[step.index];
          break;
        case TrackStep::Kind::exchange:
        case TrackStep::Kind::post:
        case TrackStep::Kind::wait:
          if (!messages_.step(step, number, rank.clock, ready_)) {
            --rank.step;
            return;
          }
          break;
        case TrackStep::Kind::repeat:
          if (rank.times_left == 0) rank.times_left = step.index;
          if (--rank.times_left > 0) rank.step -= step.count + 1;
          break;
        case TrackStep::Kind::border:
          pass_border(number, rank);
          break;
      }
    }
  }

  void run(Rank& rank, SimTime duration) {
    SimTime const start = rank.clock;
    rank.clock = rank.data_parallel_idle <= start
                     ? start + duration
                     : slowed_end(start, duration, rank.data_parallel_idle, slowdown_);
    rank.busy += rank.clock - start;
  }

  void pass_border(std::size_t number, Rank& rank) {
    int const border = ++rank.border;
    if (border == 0) {
      rank.lap = rank.step;
      rank.busy_in_lap = -rank.busy;
    } else if (border == 1) {
      rank.busy_in_lap += rank.busy;  // the same in every lap: nothing slows computation down yet
    }
    if (history_) record(number, rank);
    if (border < laps_) rank.step = rank.lap;
  }

  void record(std::size_t number, Rank const& rank) {
    auto const state = history_->state(number, rank.border);
    state.front() = rank.clock;
    messages_.write_state(number, rank.clock, state.subspan(1));
    if (!history_->is_complete_with(rank.border)) return;
    auto const repetition = history_->repetition(rank.border);
    if (!repetition) return;
    // Ranks ahead of this border have begun laps that cannot be left out any more. `number` itself
    // has not begun the next: a lap more for all is on the safe side.
    int begun = 0;
    for (Rank const& other : ranks_) begun = std::max(begun, other.border + 1);
    int const times = (laps_ - begun) / repetition->laps;
    if (times <= 0) return;
    laps_left_out_ = times * repetition->laps;
    left_out_ = times * repetition->shift;
    laps_ -= laps_left_out_;
    history_.reset();
  }

  Messages messages_;
  int slowdown_;
  int laps_;  ///< that every rank runs
  int laps_left_out_ = 0;
  SimTime left_out_{0};
  std::vector<Rank> ranks_;
  std::vector<std::int32_t> ready_;  ///< ranks that can go on
  std::optional<LapHistory> history_;
};

/// What a message of each row costs.
std::vector<MessagePrice> row_prices(TrackWalkInput const& input) {
  ScheduleShape const& shape = input.loop->shape;
  std::vector<MessagePrice> prices;
  prices.reserve(static_cast<std::size_t>(message_rows(shape)));
  int const boundaries = shape.stages * shape.chunks - 1;
  for (int i = 0; i < boundaries; ++i) {
    prices.push_back(input.activation[static_cast<std::size_t>(i % shape.stages)]);
  }
  for (int i = 0; i < boundaries; ++i) {
    prices.push_back(input.gradient[static_cast<std::size_t>((i + 1) % shape.stages)]);
  }
  return prices;
}

}  // namespace

TrackEnds walk_tracks(TrackWalkInput const& input) {
  std::vector<MessagePrice> const prices = row_prices(input);
  Tracks const& tracks = *input.tracks;
  if (input.loop->shape.p2p == P2p::blocking) {
    BlockingMessages messages{tracks.ends, prices, tracks.ranks.size()};
    return TrackWalk<BlockingMessages>{input, std::move(messages)}.finish();
  }
  // A stage is ahead of another by at most its warm-up, of which the microbatches laid out hold
  // all.
  auto const most_queued = static_cast<std::size_t>(input.loop->shape.microbatches) + 1;
  OverlappedMessages messages{tracks.ends, prices, tracks.ranks.size(), most_queued};
  return TrackWalk<OverlappedMessages>{input, std::move(messages)}.finish();
}

}  // namespace stagecraft
