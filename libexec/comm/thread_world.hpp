#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "libexec/comm/communicator.hpp"
#include "libexec/comm/job_health.hpp"
#include "libexec/comm/local_transport.hpp"
#include "libexec/comm/thread_group.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The messages of one pipeline (the stages of one tensor rank and replica) within a process. Each
/// message number has a box, which an iteration uses once.
///
/// The end that arrives second copies a message directly from the sender's into the receiver's
/// tensor. If sends are buffered (overlapped p2p) and the sender waits before the receiver has
/// posted, the box keeps a copy until then. This buffer is not part of the plan, just as those of a
/// network card are not.
class ThreadMailboxes {
 public:
  ThreadMailboxes(std::size_t messages,
                  bool buffers_sends,
                  LocalTransport& transport,
                  JobClock const& clock,
                  JobHealth const& health);

  void post(Message const& message);
  TimeSpan wait(Message const& message);

  /// Waits until no thread copies from or into the ranks' tensors.
  /// Pre: the job has failed, so that nothing further will be copied.
  void wait_until_quiet() { std::scoped_lock const lock{mutex_}; }

 private:
  struct Box {
    Message send;
    Message receive;
    bool is_sent = false;
    bool is_open = false;
    bool is_copied = false;
    SimTime copied{0};           ///< wall clock
    std::shared_ptr<void> kept;  ///< the copy of a buffered send
    int waits = 0;               ///< number of ends that have waited for it
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

/// All ranks of a plan's job as threads of this process: their groups and mailboxes.
class ThreadWorld {
 public:
  /// All arguments must outlive the world.
  ThreadWorld(TrainingPlan const& plan,
              LocalTransport& transport,
              JobClock const& clock,
              JobHealth& health);
  ~ThreadWorld();
  ThreadWorld(ThreadWorld const&) = delete;
  ThreadWorld(ThreadWorld&&) = delete;
  ThreadWorld& operator=(ThreadWorld const&) = delete;
  ThreadWorld& operator=(ThreadWorld&&) = delete;

  /// Makes the communicator of a rank; the world must outlive it.
  std::unique_ptr<Communicator> communicator(RankId rank);

 private:
  class RankCommunicator;

  RankGroups const& ranks_;
  JobHealth& health_;
  /// Indexed by group and lowest rank.
  std::map<std::pair<GroupId, RankId>, std::unique_ptr<ThreadGroup>> groups_;
  std::vector<std::unique_ptr<ThreadMailboxes>> mailboxes_;  ///< by rank of the first stage
  HostTransport nothing_;                                    ///< for barriers, which move no data
  ThreadGroup everyone_;
};

}  // namespace stagecraft
