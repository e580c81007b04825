#pragma once

#include <memory>

#include "libexec/comm/communicator.hpp"
#include "libexec/comm/mpi/mpi_session.hpp"
#include "libexec/comm/thread_group.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// A ProcessWorld over MPI. If a process dies, the launcher (mpirun, srun) ends the job; one that
/// throws ends it by Communicator::fail().
class MpiWorld final : public ProcessWorld {
 public:
  /// All processes call it. Plan, session and clock must outlive the world, which assumes that the
  /// clocks of all processes show the same time. Pre: the plan has as many ranks as the session.
  /// \throws CommunicationError
  MpiWorld(TrainingPlan const& plan, MpiSession& session, JobClock const& clock);
  /// Waits until all sent messages have left.
  ~MpiWorld() override;
  MpiWorld(MpiWorld const&) = delete;
  MpiWorld(MpiWorld&&) = delete;
  MpiWorld& operator=(MpiWorld const&) = delete;
  MpiWorld& operator=(MpiWorld&&) = delete;

  Communicator& communicator() override;
  std::vector<Numbers> gather(Numbers const& numbers) override;
  std::chrono::nanoseconds clock_offset() override;

 private:
  class RankCommunicator;
  std::unique_ptr<RankCommunicator> communicator_;
};

}  // namespace stagecraft
