#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "libexec/comm/collectives.hpp"
#include "libexec/comm/communicator.hpp"
#include "libexec/comm/job_health.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The clock of a job, from which communicators take times if they are measured.
class JobClock {
 public:
  virtual ~JobClock() = default;
  /// Whether communication takes its modelled duration instead of the measured one.
  virtual bool is_virtual() const = 0;
  /// Time since the start of the iteration. Pre: not virtual.
  virtual SimTime now() const = 0;
  /// The number of the iteration. In each, times start at 0.
  virtual std::int64_t iteration() const = 0;
};

/// A group of ranks that are threads of one process.
///
/// start() does not wait, but for what the collective is to follow. The member that arrives last
/// lets the transport compute the result for all, directly from and into their tensors, so that
/// there is no copy that the plan lacks. In a prefix_reduce, the result of a stage's members is
/// computed once they and all members of earlier stages have arrived.
class ThreadGroup {
 public:
  /// Transport, clock and health must outlive the group.
  ThreadGroup(std::size_t members,
              LocalTransport& transport,
              JobClock const& clock,
              JobHealth const& health);

  Communicator::Ticket start(std::size_t member, Collective const& collective);
  TimeSpan finish(std::size_t member, Communicator::Ticket ticket);
  /// Waits until a member's part is done, which it finishes later. Returns when that ran.
  TimeSpan wait(std::size_t member, Communicator::Ticket ticket);

  /// Waits until no thread reads or writes the members' tensors.
  /// Pre: the job has failed, so that no further result will be computed.
  void wait_until_quiet();

 private:
  /// A collective that some member has started and not every member has finished.
  struct InFlight {
    std::vector<Collective> calls;  ///< by member
    std::vector<bool> has_arrived;  ///< likewise
    std::size_t arrived = 0;
    std::size_t left = 0;
    /// Members whose part is done: all at once, but for prefix_reduce the first ones.
    std::size_t done = 0;
    bool is_computing = false;      ///< prefix_reduce: a thread computes the next results
    std::vector<TimeSpan> times;    ///< by member
    std::vector<std::byte> so_far;  ///< prefix_reduce: the reduction over the done ones
  };
  InFlight& wait_for(std::size_t member,
                     Communicator::Ticket ticket,
                     std::unique_lock<std::mutex>& lock);
  void run_all(InFlight& joined, std::unique_lock<std::mutex>& lock);
  void run_prefixes(InFlight& joined, std::unique_lock<std::mutex>& lock);
  void compute_unlocked(std::vector<Collective> const& calls, std::unique_lock<std::mutex>& lock);

  LocalTransport& transport_;
  JobClock const& clock_;
  JobHealth const& health_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int computing_ = 0;                       ///< results that threads compute now
  std::vector<Communicator::Ticket> next_;  ///< by member
  std::deque<InFlight> in_flight_;          ///< a deque, so that references stay valid
  Communicator::Ticket first_ = 0;          ///< number of in_flight_.front()
  SimTime idle_{0};  ///< virtual clock: until when the group's stream is busy in this iteration
  std::int64_t iteration_ = 0;
};

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
