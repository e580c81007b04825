#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "libsim/engine/player/timeline.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// For each channel, the number of messages that are on their way into the steady-state loop: sent
/// before the sender's loop and waited for in the receiver's loop or after it. Negative: waited for
/// before the loop and sent in it.
std::vector<std::int32_t> messages_into_loop(TimelineInput const& input);

/// Blocking messages, as play() has them: a message starts when both ends have posted it. A stage
/// waits for all that it has posted, so a channel never has two messages on their way; the end that
/// posts last knows when the message is over, and tells the other end.
class BlockingChannels {
 public:
  explicit BlockingChannels(TimelineInput const& input) : stages_(input.stages.size()) {
    channels_.reserve(input.channels.size());
    for (MessageCost const& cost : input.channels) {
      channels_.push_back({.duration = cost.latency + cost.occupancy});
    }
  }

  /// A stage posts transfers. Stages that can go on because of it are added to `ready`. Each
  /// message whose end is now known is passed on: `told(index of its transfer, start, end)`.
  template <class Told>
  void post(std::span<Transfer const> transfers,
            int number,
            SimTime clock,
            std::vector<std::int32_t>& ready,
            Told told) {
    Stage& stage = stages_[static_cast<std::size_t>(number)];
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(transfers.size()); ++i) {
      Transfer const& transfer = transfers[static_cast<std::size_t>(i)];
      Channel& channel = channels_[static_cast<std::size_t>(transfer.channel)];
      if (channel.posted == never) {
        channel.posted = clock;
        channel.transfer = i;
        ++stage.missing;
        continue;
      }
      SimTime const start = std::max(channel.posted, clock);
      SimTime const end = start + channel.duration;
      channel.posted = never;
      Stage& peer = stages_[transfer.peer.index()];
      note(stage, i, start, end);
      note(peer, channel.transfer, start, end);
      told(i, start, end);
      if (--peer.missing == 0) ready.push_back(transfer.peer.value());
    }
  }

  /// Returns false if the stage cannot go on yet. Otherwise, if a message ends after `end`, `start`
  /// and `end` become those of the message that ends last.
  bool wait(std::span<Transfer const> /*transfers*/, int number, SimTime& start, SimTime& end) {
    Stage const& stage = stages_[static_cast<std::size_t>(number)];
    if (stage.missing > 0) return false;
    if (stage.end <= end) return true;
    start = stage.start;
    end = stage.end;
    return true;
  }

  /// Whether the state at the borders of the loop can be told. Here it can if no message crosses
  /// the borders: the state is then the clocks alone.
  static bool can_tell_state(TimelineInput const& input) {
    std::vector<std::int32_t> const crossing = messages_into_loop(input);
    return std::all_of(crossing.begin(), crossing.end(), [](std::int32_t n) { return n == 0; });
  }
  std::int32_t width(std::size_t /*stage*/) const { return 0; }
  void write_state(std::size_t /*stage*/, SimTime /*clock*/, std::span<SimTime> /*state*/) const {}

  /// Whether one end waits for the other, by channel.
  std::vector<bool> missing() const {
    std::vector<bool> missing;
    for (Channel const& channel : channels_) missing.push_back(channel.posted != never);
    return missing;
  }

 private:
  static constexpr SimTime never{std::numeric_limits<std::int64_t>::max()};
  struct Stage {
    SimTime end{0};  ///< end of the message that ends last, as far as known
    SimTime start{0};
    std::int32_t transfer = 0;  ///< its index in its post: of equals, the first counts
    std::int32_t missing = 0;   ///< messages whose other end has not been posted yet
  };
  struct Channel {
    SimTime posted{never};  ///< time at which the first end posted
    SimTime duration{0};
    std::int32_t transfer = 0;  ///< transfer of the first end
  };

  static void note(Stage& stage, std::int32_t transfer, SimTime start, SimTime end) {
    if (end < stage.end || (end == stage.end && transfer > stage.transfer)) return;
    stage.end = end;
    stage.start = start;
    stage.transfer = transfer;
  }

  std::vector<Channel> channels_;
  std::vector<Stage> stages_;
};

/// Overlapped messages, as play() has them: a message leaves when its sender has posted it and the
/// sender's earlier messages of that payload have left, and it queues at the receiver.
class OverlappedChannels {
 public:
  explicit OverlappedChannels(TimelineInput const& input);

  template <class Told>
  void post(std::span<Transfer const> transfers,
            int number,
            SimTime clock,
            std::vector<std::int32_t>& ready,
            Told told) {
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(transfers.size()); ++i) {
      Transfer const& transfer = transfers[static_cast<std::size_t>(i)];
      if (transfer.end != Transfer::End::send) continue;
      Channel& channel = channels_[static_cast<std::size_t>(transfer.channel)];
      SimTime& idle = stages_[static_cast<std::size_t>(number)]
                          .idle[static_cast<std::size_t>(transfer.payload)];
      SimTime const start = std::max(clock, idle);
      idle = start + channel.cost.occupancy;
      left_[place(transfer.channel, channel.sent++)] = idle;
      told(i, start, idle + channel.cost.latency);
      Stage& peer = stages_[transfer.peer.index()];
      if (peer.blocked_on != transfer.channel) continue;
      peer.blocked_on = none;
      ready.push_back(transfer.peer.value());
    }
  }

  bool wait(std::span<Transfer const> transfers, int number, SimTime& start, SimTime& end);

  /// Notes the messages that belong to the state at the borders of the loop.
  bool can_tell_state(TimelineInput const& input);
  std::int32_t width(std::size_t stage) const;
  void write_state(std::size_t stage, SimTime clock, std::span<SimTime> state) const;

  /// Whether all messages that were sent have been received, by channel.
  std::vector<bool> missing() const;

 private:
  static constexpr std::int32_t none = -1;
  struct Stage {
    std::int32_t blocked_on = none;      ///< channel on which it waits
    SimTime idle[2] = {};                ///< times from which its send streams are idle, by payload
    std::vector<std::int32_t> crossing;  ///< channels on which it sends across its borders
  };
  struct Channel {
    std::int32_t sent = 0;
    std::int32_t received = 0;
    std::int32_t released = 0;  ///< sends for which their sender has waited
    std::int32_t crossing = 0;
    MessageCost cost;
  };

  /// The index in left_ of message `message` of a channel.
  std::size_t place(std::int32_t channel, std::int32_t message) const {
    return (static_cast<std::size_t>(channel) << bits_) +
           (static_cast<std::size_t>(message) & mask_);
  }

  std::vector<Stage> stages_;
  std::vector<Channel> channels_;
  unsigned bits_;
  std::size_t mask_;
  std::unique_ptr<SimTime[]> left_;  ///< when messages left their senders; a ring for each channel
};

}  // namespace stagecraft
