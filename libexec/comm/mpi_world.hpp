#pragma once

#include <memory>

#include "libexec/comm/communicator.hpp"
#include "libexec/comm/mpi_session.hpp"
#include "libexec/comm/thread_group.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The groups of a plan's job, each rank a process: this process's way to the others.
///
/// A process that dies ends the job through whoever started it (mpirun, srun); one that throws ends
/// it by Communicator::fail().
class MpiWorld final : public ProcessWorld {
 public:
  /// Called by all processes. Plan, session and clock must outlive the world; the clocks of all
  /// processes are taken to show the same time. Pre: the plan has as many ranks as the session.
  /// \throws CommunicationError
  MpiWorld(TrainingPlan const& plan, MpiSession& session, JobClock const& clock);
  /// Waits until what was sent has left.
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
