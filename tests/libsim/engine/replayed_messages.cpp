#include "tests/libsim/engine/replayed_messages.hpp"

#include <algorithm>

namespace stagecraft {

MessageCost ReplayedMessages::cost_of(Transfer const& transfer) const {
  bool const sends = transfer.end == Transfer::End::send;
  return cost_.message_cost(sends ? stage_ : transfer.peer, sends ? transfer.peer : stage_);
}

void ReplayedMessages::post(IssueEntry const& entry, SimTime now) {
  for (std::int32_t i = 0; i < entry.count; ++i) post(transfer(entry.first + i), now);
}

void ReplayedMessages::post(Transfer const& transfer, SimTime now) {
  ReplayedMessage& shared = message(transfer);
  MessageCost const cost = cost_of(transfer);
  bool const sends = transfer.end == Transfer::End::send;
  (sends ? shared.sent : shared.received) = now;
  if (is_blocking()) {
    if (shared.sent && shared.received) {
      shared.start = std::max(*shared.sent, *shared.received);
      shared.end = *shared.start + cost.latency + cost.occupancy;
    }
  } else if (sends) {
    SimTime& idle = send_idle_[transfer.payload];
    shared.start = std::max(now, idle);
    idle = *shared.start + cost.occupancy;
    shared.end = idle + cost.latency;
  }
  if (sends) return;
  bool const scatters = plan_.scatters_messages();
  std::int64_t const whole = plan_.message_bytes().count();
  receiving_[transfer.message] =
      heap_.allocate(scatters ? Category::communication : Category::activations,
                     scatters ? whole / plan_.shape.tensor : whole, now);
}

std::optional<SimTime> ReplayedMessages::wait(IssueEntry const& entry, SimTime now) {
  SimTime over = now;
  for (std::int32_t i = 0; i < entry.count; ++i) {
    Transfer const& one = transfer(entry.first + i);
    ReplayedMessage const& shared = message(one);
    if (!shared.end) return std::nullopt;
    bool const has_left = !is_blocking() && one.end == Transfer::End::send;
    over = std::max(over, has_left ? *shared.end - cost_of(one).latency : *shared.end);
  }
  for (std::int32_t i = 0; i < entry.count; ++i) end(transfer(entry.first + i), over);
  return over;
}

void ReplayedMessages::end(Transfer const& transfer, SimTime now) {
  Key const key{transfer.payload, transfer.chunk, transfer.microbatch};
  if (transfer.end == Transfer::End::send) {
    bool const is_kept = transfer.payload == Transfer::Payload::activation &&
                         !plan_.config.memory.output_deallocation;
    if (!is_kept) heap_.release(outgoing_.at(key), "the end of a send");
    return;
  }
  BufferHeap::Id buffer = receiving_.at(transfer.message);
  if (plan_.scatters_messages()) {
    BufferHeap::Id const shard = buffer;
    buffer = heap_.allocate(Category::activations, plan_.message_bytes().count(), now);
    heap_.release(shard, "the gather of a message");
  }
  incoming_[key] = buffer;
}

std::optional<BufferHeap::Id> ReplayedMessages::arrived(Key const& key) const {
  auto const found = incoming_.find(key);
  if (found == incoming_.end()) return std::nullopt;
  return found->second;
}

}  // namespace stagecraft
