#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "libexec/comm/communicator.hpp"
#include "libexec/comm/job_session.hpp"
#include "libexec/comm/thread_world.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

class MpiProgress;

/// MPI in this process, from MPI_Init to MPI_Finalize; at most one per process. The launcher
/// (mpirun, srun) notices when a process dies.
///
/// In a build without MPI the constructor throws.
class MpiSession final : public JobSession {
 public:
  /// \throws CommunicationError  if the program was built without MPI, or if MPI cannot start.
  explicit MpiSession(Describe describe);
  ~MpiSession() override;
  MpiSession(MpiSession const&) = delete;
  MpiSession(MpiSession&&) = delete;
  MpiSession& operator=(MpiSession const&) = delete;
  MpiSession& operator=(MpiSession&&) = delete;

  RankId rank() const override;
  int size() const override;
  [[noreturn]] void fail(std::exception_ptr const& error) override;
  using Numbers = ProcessWorld::Numbers;
  /// As in ProcessWorld.
  std::vector<Numbers> gather(Numbers const& numbers);
  std::chrono::nanoseconds clock_offset();
  /// Sends rank 0's bytes to all. All processes call it. \throws CommunicationError
  void broadcast(std::span<std::byte> bytes);

  /// For communicators.
  MpiProgress& progress() { return *progress_; }

 private:
  Describe describe_;
  std::unique_ptr<MpiProgress> progress_;
};

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
