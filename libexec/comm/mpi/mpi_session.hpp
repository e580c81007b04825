#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "libexec/comm/job_session.hpp"

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

}  // namespace stagecraft
