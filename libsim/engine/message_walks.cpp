#include "libsim/engine/message_walks.hpp"

#include <bit>

namespace stagecraft {

OverlappedMessages::OverlappedMessages(std::span<TrackEnd const> ends,
                                       std::span<MessagePrice const> prices,
                                       std::size_t ranks,
                                       std::size_t most_queued)
    : ends_{ends.data()},
      ranks_(ranks),
      rows_(prices.size()),
      sent_rows_(ranks),
      bits_{static_cast<unsigned>(std::bit_width(most_queued))},
      mask_{(std::size_t{1} << bits_) - 1},
      left_{std::make_unique_for_overwrite<SimTime[]>(prices.size() << bits_)} {
  for (std::size_t i = 0; i < prices.size(); ++i) rows_[i].price = prices[i];
}

bool OverlappedMessages::can_tell_state(std::span<std::int32_t const> crossing) {
  std::size_t const boundaries = rows_.size() / 2;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    if (crossing[row] <= 0) continue;  // a wait for what is sent later has its part in the clock
    std::size_t const sender = (row < boundaries ? row : row - boundaries + 1) % ranks_.size();
    rows_[row].crossing = crossing[row];
    sent_rows_[sender].push_back(static_cast<std::int32_t>(row));
  }
  return true;
}

std::int32_t OverlappedMessages::width(std::size_t rank) const {
  std::int32_t components = 2;
  for (std::int32_t const row : sent_rows_[rank]) {
    components += rows_[static_cast<std::size_t>(row)].crossing;
  }
  return components;
}

void OverlappedMessages::write_state(std::size_t rank,
                                     SimTime clock,
                                     std::span<SimTime> state) const {
  auto component = state.begin();
  // A stream that is idle already makes no difference, since when is not part of the state.
  for (SimTime const idle : ranks_[rank].idle) *component++ = std::max(idle, clock);
  for (std::int32_t const row : sent_rows_[rank]) {
    Row const& sent = rows_[static_cast<std::size_t>(row)];
    for (std::int32_t i = sent.sent - sent.crossing; i < sent.sent; ++i) {
      *component++ = left_[place(row, i)];
    }
  }
}

void OverlappedMessages::post(TrackStep const& step,
                              std::size_t number,
                              SimTime clock,
                              std::vector<std::int32_t>& ready) {
  TrackEnd const* const begin = ends_ + step.index;
  for (TrackEnd const* end = begin; end != begin + step.count; ++end) {
    if (!end->sends()) continue;
    Row& row = rows_[static_cast<std::size_t>(end->row)];
    SimTime& idle = ranks_[number].idle[payload(end->row)];
    idle = std::max(clock, idle) + row.price.occupancy;
    left_[place(end->row, row.sent++)] = idle;
    Rank& peer = ranks_[static_cast<std::size_t>(end->peer())];
    if (peer.blocked_on == end->row) {
      peer.blocked_on = -1;
      ready.push_back(end->peer());
    }
  }
}

bool OverlappedMessages::wait(TrackStep const& step, std::size_t number, SimTime& clock) {
  TrackEnd const* const begin = ends_ + step.index;
  for (TrackEnd const* end = begin; end != begin + step.count; ++end) {
    Row const& row = rows_[static_cast<std::size_t>(end->row)];
    if (!end->sends() && row.received == row.sent) {
      ranks_[number].blocked_on = end->row;
      return false;
    }
  }
  for (TrackEnd const* end = begin; end != begin + step.count; ++end) {
    Row& row = rows_[static_cast<std::size_t>(end->row)];
    SimTime const over = end->sends() ? left_[place(end->row, row.released++)]
                                      : left_[place(end->row, row.received++)] + row.price.latency;
    clock = std::max(clock, over);
  }
  return true;
}

}  // namespace stagecraft
