#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "libexec/comm/communicator.hpp"
#include "libexec/comm/job_health.hpp"
#include "libexec/comm/thread_group.hpp"
#include "libexec/comm/thread_mailboxes.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

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
