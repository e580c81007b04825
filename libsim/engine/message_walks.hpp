#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "libsim/engine/rank_track.hpp"
#include "libsim/engine/timeline.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Blocking messages on tracks, as TimelineWalk<P2p::blocking> has them: a message starts when both
/// ends have posted it. A rank waits where it posts, so that a row never has two messages under
/// way, and who posts last knows when the message is over and tells the other end.
class BlockingMessages {
 public:
  struct Rank {
    SimTime arrival{0};        ///< end of the exchange it is in, as far as known
    std::int32_t missing = 0;  ///< ends of it whose peers have not posted yet
    bool is_in_exchange = false;
  };

  /// The prices are by row; they and the ends must outlive this object.
  BlockingMessages(std::span<TrackEnd const> ends,
                   std::span<MessagePrice const> prices,
                   std::size_t ranks)
      : ends_{ends.data()}, ranks_(ranks) {
    rows_.reserve(prices.size());
    for (MessagePrice const& price : prices)
      rows_.push_back({never_, price.latency + price.occupancy});
  }

  /// Takes a rank through an exchange. False: it has to wait, and gets into `ready` when it can go
  /// on.
  bool step(TrackStep const& step,
            std::size_t number,
            SimTime& clock,
            std::vector<std::int32_t>& ready) {
    Rank& rank = ranks_[number];
    if (!rank.is_in_exchange) {
      post(step, rank, clock, ready);
      if (rank.missing > 0) {
        rank.is_in_exchange = true;
        return false;
      }
    }
    rank.is_in_exchange = false;
    clock = std::max(clock, rank.arrival);
    return true;
  }

  /// Whether the state at the borders of laps can be told: here, where no message crosses them and
  /// the clocks are all of it. `crossing`: Tracks::crossing.
  static bool can_tell_state(std::span<std::int32_t const> crossing) {
    return std::all_of(crossing.begin(), crossing.end(), [](std::int32_t n) { return n == 0; });
  }
  std::int32_t width(std::size_t /*rank*/) const { return 0; }
  void write_state(std::size_t /*rank*/, SimTime /*clock*/, std::span<SimTime> /*state*/) const {}

 private:
  struct Row {
    SimTime posted;  ///< by the first end
    SimTime price;
  };

  void post(TrackStep const& step, Rank& rank, SimTime clock, std::vector<std::int32_t>& ready) {
    TrackEnd const* const begin = ends_ + step.index;
    for (TrackEnd const* end = begin; end != begin + step.count; ++end) {
      Row& row = rows_[static_cast<std::size_t>(end->row)];
      if (row.posted == never_) {
        row.posted = clock;
        ++rank.missing;
        continue;
      }
      SimTime const over = std::max(row.posted, clock) + row.price;
      row.posted = never_;
      rank.arrival = std::max(rank.arrival, over);
      Rank& peer = ranks_[static_cast<std::size_t>(end->peer())];
      peer.arrival = std::max(peer.arrival, over);
      if (--peer.missing == 0) ready.push_back(end->peer());
    }
  }

  static constexpr SimTime never_{std::numeric_limits<std::int64_t>::max()};
  TrackEnd const* ends_;
  std::vector<Row> rows_;
  std::vector<Rank> ranks_;
};

/// Overlapped messages on tracks, as TimelineWalk<P2p::overlapped> has them: a message leaves when
/// its sender has posted it and the sender's earlier messages of that payload have left, and queues
/// at the receiver.
class OverlappedMessages {
 public:
  /// The prices are by row; they and the ends must outlive this object. `most_queued`: in a row.
  OverlappedMessages(std::span<TrackEnd const> ends,
                     std::span<MessagePrice const> prices,
                     std::size_t ranks,
                     std::size_t most_queued);

  bool step(TrackStep const& step,
            std::size_t number,
            SimTime& clock,
            std::vector<std::int32_t>& ready) {
    if (step.kind == TrackStep::Kind::wait) return wait(step, number, clock);
    post(step, number, clock, ready);
    return true;
  }

  /// Notes which messages belong to the state at the borders of laps.
  bool can_tell_state(std::span<std::int32_t const> crossing);
  std::int32_t width(std::size_t rank) const;
  void write_state(std::size_t rank, SimTime clock, std::span<SimTime> state) const;

 private:
  struct Rank {
    std::int32_t blocked_on = -1;  ///< row
    SimTime idle[2] = {};          ///< its send streams, by payload
  };
  struct Row {
    std::int32_t sent = 0;
    std::int32_t received = 0;
    std::int32_t released = 0;  ///< sends that their sender has waited for
    std::int32_t crossing = 0;
    MessagePrice price;
  };

  void post(TrackStep const& step,
            std::size_t number,
            SimTime clock,
            std::vector<std::int32_t>& ready);
  bool wait(TrackStep const& step, std::size_t number, SimTime& clock);
  std::size_t payload(std::int32_t row) const {
    return 2 * static_cast<std::size_t>(row) < rows_.size() ? 0 : 1;
  }
  /// Of message `message` of a row, in left_.
  std::size_t place(std::int32_t row, std::int32_t message) const {
    return (static_cast<std::size_t>(row) << bits_) + (static_cast<std::size_t>(message) & mask_);
  }

  TrackEnd const* ends_;
  std::vector<Rank> ranks_;
  std::vector<Row> rows_;
  std::vector<std::vector<std::int32_t>> sent_rows_;  ///< by rank: those that cross its borders
  unsigned bits_;
  std::size_t mask_;
  std::unique_ptr<SimTime[]> left_;  ///< when messages left their senders; a ring for each row
};

}  // namespace stagecraft
