#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "libexec/comm/job_session.hpp"

namespace stagecraft {

class MpiProgress;

/// MPI in this process, from its start to its end; one a process, as MPI has it. A process that
/// dies is noticed by whoever started the job (mpirun, srun).
///
/// A program that was built without MPI has it too, and refuses to make one.
class MpiSession final : public JobSession {
 public:
  /// \throws CommunicationError  without MPI, and what MPI says when it cannot start.
  explicit MpiSession(Describe describe);
  ~MpiSession() override;
  MpiSession(MpiSession const&) = delete;
  MpiSession(MpiSession&&) = delete;
  MpiSession& operator=(MpiSession const&) = delete;
  MpiSession& operator=(MpiSession&&) = delete;

  int rank() const override;
  int size() const override;
  [[noreturn]] void fail(std::exception_ptr const& error) override;
  using Numbers = ProcessWorld::Numbers;
  /// As those of ProcessWorld.
  std::vector<Numbers> gather(Numbers const& numbers);
  std::chrono::nanoseconds clock_offset();
  /// Gives rank 0's bytes to all. Called by all. \throws CommunicationError
  void broadcast(std::span<std::byte> bytes);

  /// For communicators.
  MpiProgress& progress() { return *progress_; }

 private:
  Describe describe_;
  std::unique_ptr<MpiProgress> progress_;
};

}  // namespace stagecraft
