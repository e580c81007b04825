#include "libexec/comm/thread_mailboxes.hpp"

#include <algorithm>
#include <stdexcept>

#include "libexec/comm/healthy_wait.hpp"

namespace stagecraft {

ThreadMailboxes::ThreadMailboxes(std::size_t messages,
                                 bool buffers_sends,
                                 LocalTransport& transport,
                                 JobClock const& clock,
                                 JobHealth const& health)
    : transport_{transport},
      clock_{clock},
      health_{health},
      buffers_sends_{buffers_sends},
      boxes_(messages) {}

void ThreadMailboxes::post(Message const& message) {
  std::scoped_lock const lock{mutex_};
  if (health_.has_failed()) throw PeerFailure{"another rank has failed"};
  Box& box = boxes_[static_cast<std::size_t>(message.number)];
  bool const is_send = message.end == Transfer::End::send;
  (is_send ? box.send : box.receive) = message;
  (is_send ? box.is_sent : box.is_open) = true;
  copy_if_both(box);
}

TimeSpan ThreadMailboxes::wait(Message const& message) {
  std::unique_lock lock{mutex_};
  Box& box = boxes_[static_cast<std::size_t>(message.number)];
  bool const is_send = message.end == Transfer::End::send;
  if (is_send && buffers_sends_ && !box.is_copied) {
    box.kept = transport_.keep(box.send);
  } else {
    wait_while_healthy(changed_, lock, health_, [&] { return box.is_copied; });
  }
  TimeSpan const time = time_of(box, message.end);
  if (++box.waits == 2) box = {};
  return time;
}

void ThreadMailboxes::copy_if_both(Box& box) {
  if (!box.is_sent || !box.is_open) return;
  if (box.send.bytes != box.receive.bytes) {
    throw std::logic_error{"the ends of a message disagree about its size"};
  }
  transport_.copy(box.send, box.receive);
  box.is_copied = true;
  if (!clock_.is_virtual()) box.copied = clock_.now();
  changed_.notify_all();
}

TimeSpan ThreadMailboxes::time_of(Box const& box, Transfer::End end) const {
  bool const is_send = end == Transfer::End::send;
  SimTime const posted = is_send ? box.send.posted : box.receive.posted;
  if (!clock_.is_virtual()) return {posted, std::max(posted, box.copied)};
  // As in the simulator, a blocking message starts when both ends have posted it, an overlapped one
  // when its sender has.
  Message const& sent = box.send;
  if (!buffers_sends_) {
    SimTime const start = std::max(sent.posted, box.receive.posted);
    return {start, start + sent.latency + sent.occupancy};
  }
  SimTime const left = sent.posted + sent.occupancy;
  return {sent.posted, is_send ? left : left + sent.latency};
}

}  // namespace stagecraft
