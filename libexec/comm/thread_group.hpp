#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "libexec/comm/communicator.hpp"
#include "libexec/comm/job_health.hpp"
#include "libexec/comm/local_transport.hpp"

namespace stagecraft {

/// When something of a job happens. Communicators of one process ask it where time is measured.
class JobClock {
 public:
  virtual ~JobClock() = default;
  /// Whether communication takes its price instead of the time it was measured to take.
  virtual bool is_virtual() const = 0;
  /// Time since the start of the iteration. Pre: not virtual.
  virtual SimTime now() const = 0;
  /// Number of the iteration: times start from 0 in each.
  virtual std::int64_t iteration() const = 0;
};

/// Ranks of one process that take part in collectives together, each on a thread of its own.
///
/// Nobody waits in start(): whoever comes last has the transport compute the result for all,
/// straight from and into their tensors, so that no copy exists that a plan does not know of.
class ThreadGroup {
 public:
  /// Transport, clock and health must outlive the group.
  ThreadGroup(std::size_t members,
              LocalTransport& transport,
              JobClock const& clock,
              JobHealth const& health);

  Communicator::Ticket start(std::size_t member, Collective const& collective);
  TimeSpan finish(std::size_t member, Communicator::Ticket ticket);

  /// Returns once nobody reads or writes the tensors of the members any more.
  /// Pre: the job has failed, so that no other result will be computed.
  void wait_until_quiet();

 private:
  struct Meeting {
    std::vector<Collective> calls;  ///< by member
    std::size_t arrived = 0;
    std::size_t left = 0;
    bool is_done = false;
    TimeSpan time;
  };
  void compute_unlocked(Meeting const& meeting, std::unique_lock<std::mutex>& lock);

  LocalTransport& transport_;
  JobClock const& clock_;
  JobHealth const& health_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_computing_ = false;
  std::vector<Communicator::Ticket> next_;  ///< by member
  std::deque<Meeting> meetings_;            ///< never moves what it holds
  Communicator::Ticket first_ = 0;          ///< number of meetings_.front()
  SimTime idle_{0};  ///< virtual: the group's stream is busy until here, in this iteration
  std::int64_t iteration_ = 0;
};

}  // namespace stagecraft
