#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "libexec/comm/communicator.hpp"
#include "libexec/comm/job_health.hpp"
#include "libexec/comm/local_transport.hpp"
#include "libexec/comm/thread_group.hpp"

namespace stagecraft {

/// The messages of one pipeline (the stages of one tensor rank and replica) within a process. Each
/// message number has a box; an iteration uses it once.
///
/// A message is copied straight from the sender's into the receiver's tensor by the end that comes
/// second. Where sends are buffered (overlapped p2p) and the sender waits before the receiver has
/// posted, the message is kept in the box until then: the one buffer that a plan does not know of,
/// like those of a network card.
class ThreadMailboxes {
 public:
  ThreadMailboxes(std::size_t messages,
                  bool buffers_sends,
                  LocalTransport& transport,
                  JobClock const& clock,
                  JobHealth const& health);

  void post(Message const& message);
  TimeSpan wait(Message const& message);

  /// Returns once nobody copies from or into the tensors of the ranks any more.
  /// Pre: the job has failed, so that nothing else will be copied.
  void wait_until_quiet() { std::scoped_lock const lock{mutex_}; }

 private:
  struct Box {
    Message send;
    Message receive;
    bool is_sent = false;
    bool is_open = false;
    bool is_copied = false;
    SimTime copied{0};           ///< wall clock
    std::shared_ptr<void> kept;  ///< of a buffered send
    int waits = 0;               ///< ends that are done with it
  };
  void copy_if_both(Box& box);
  TimeSpan time_of(Box const& box, Transfer::End end) const;

  LocalTransport& transport_;
  JobClock const& clock_;
  JobHealth const& health_;
  bool buffers_sends_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Box> boxes_;
};

}  // namespace stagecraft
