#include "libsim/engine/player/message_channels.hpp"

#include <bit>

namespace stagecraft {

std::vector<std::int32_t> messages_into_loop(TimelineInput const& input) {
  std::vector<std::int32_t> crossing(input.channels.size());
  for (PlayedStage const& stage : input.stages) {
    StageProgram const& program = *stage.program;
    if (program.steady_loop == StageProgram::none) continue;
    auto const count = [&](IssueEntry const& entry, std::int32_t times) {
      bool const is_post = entry.kind == IssueEntry::Kind::post;
      if (!is_post && entry.kind != IssueEntry::Kind::wait) return;
      for (std::int32_t i = entry.first; i < entry.first + entry.count; ++i) {
        Transfer const& transfer = program.transfers[static_cast<std::size_t>(i)];
        if ((transfer.end == Transfer::End::send) != is_post) continue;
        crossing[static_cast<std::size_t>(transfer.channel)] += is_post ? times : -times;
      }
    };
    for (std::int32_t i = 0; i < program.loop_begin(); ++i) {
      IssueEntry const& entry = program.entries[static_cast<std::size_t>(i)];
      count(entry, 1);
      if (entry.kind != IssueEntry::Kind::repeat) continue;
      for (std::int32_t k = i - entry.count; k < i; ++k) {
        count(program.entries[static_cast<std::size_t>(k)], entry.times - 1);
      }
    }
  }
  return crossing;
}

OverlappedChannels::OverlappedChannels(TimelineInput const& input)
    : stages_(input.stages.size()),
      channels_(input.channels.size()),
      bits_{static_cast<unsigned>(std::bit_width(static_cast<unsigned>(input.most_queued)))},
      mask_{(std::size_t{1} << bits_) - 1},
      left_{std::make_unique_for_overwrite<SimTime[]>(channels_.size() << bits_)} {
  for (std::size_t i = 0; i < channels_.size(); ++i) channels_[i].cost = input.channels[i];
}

bool OverlappedChannels::wait(std::span<Transfer const> transfers,
                              int number,
                              SimTime& start,
                              SimTime& end) {
  for (Transfer const& transfer : transfers) {
    Channel const& channel = channels_[static_cast<std::size_t>(transfer.channel)];
    if (transfer.end == Transfer::End::receive && channel.received == channel.sent) {
      stages_[static_cast<std::size_t>(number)].blocked_on = transfer.channel;
      return false;
    }
  }
  for (Transfer const& transfer : transfers) {
    Channel& channel = channels_[static_cast<std::size_t>(transfer.channel)];
    bool const sends = transfer.end == Transfer::End::send;
    SimTime const left =
        left_[place(transfer.channel, sends ? channel.released++ : channel.received++)];
    SimTime const over = sends ? left : left + channel.cost.latency;
    if (over <= end) continue;
    start = left - channel.cost.occupancy;
    end = over;
  }
  return true;
}

bool OverlappedChannels::can_tell_state(TimelineInput const& input) {
  std::vector<std::int32_t> const crossing = messages_into_loop(input);
  std::vector<bool> is_known(crossing.size());
  for (std::size_t stage = 0; stage < input.stages.size(); ++stage) {
    for (Transfer const& transfer : input.stages[stage].program->transfers) {
      auto const channel = static_cast<std::size_t>(transfer.channel);
      // A wait for a message that is sent later is contained in the clock.
      if (transfer.end != Transfer::End::send || is_known[channel] || crossing[channel] <= 0) {
        continue;
      }
      is_known[channel] = true;
      channels_[channel].crossing = crossing[channel];
      stages_[stage].crossing.push_back(transfer.channel);
    }
  }
  return true;
}

std::int32_t OverlappedChannels::width(std::size_t stage) const {
  std::int32_t components = 2;
  for (std::int32_t const channel : stages_[stage].crossing) {
    components += channels_[static_cast<std::size_t>(channel)].crossing;
  }
  return components;
}

void OverlappedChannels::write_state(std::size_t stage,
                                     SimTime clock,
                                     std::span<SimTime> state) const {
  auto component = state.begin();
  // The time since when a stream is idle is not part of the state, because it makes no difference.
  for (SimTime const idle : stages_[stage].idle) *component++ = std::max(idle, clock);
  for (std::int32_t const number : stages_[stage].crossing) {
    Channel const& sent = channels_[static_cast<std::size_t>(number)];
    for (std::int32_t i = sent.sent - sent.crossing; i < sent.sent; ++i) {
      *component++ = left_[place(number, i)];
    }
  }
}

std::vector<bool> OverlappedChannels::missing() const {
  std::vector<bool> missing;
  for (Channel const& channel : channels_) missing.push_back(channel.received == channel.sent);
  return missing;
}

}  // namespace stagecraft
