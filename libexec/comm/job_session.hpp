#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libexec/comm/communicator.hpp"

namespace stagecraft {

class JobClock;
struct TrainingPlan;

/// What a process says that fails.
struct LastWords {
  int exit_code = 1;
  std::string reason;  ///< lines, as they are printed
};

/// The processes of a job, of which this is one, from its start to its end: what they agree on
/// between iterations, and how they end together. Used by one thread, but for fail().
class JobSession {
 public:
  using Numbers = std::vector<std::int64_t>;
  /// What becomes of an error; called by fail() only.
  using Describe = std::function<LastWords(std::exception_ptr const&)>;

  /// Waits for all processes; does not while an exception is on its way, and then the process must
  /// end, which ends the others.
  virtual ~JobSession() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;  ///< processes of the job

  /// Ends all processes of the job. Rank 0 writes the last words of the first process that fails to
  /// standard error; their exit code becomes that of the job. Any thread may call it.
  [[noreturn]] virtual void fail(std::exception_ptr const& error) = 0;

  /// What each process has, by rank; on rank 0 only, nothing elsewhere. Called by all.
  /// \throws CommunicationError
  virtual std::vector<Numbers> gather(Numbers const& numbers) = 0;
  /// What rank 0 has for each process: the part of this one. `parts`: by rank; on rank 0 only.
  /// Called by all. \throws CommunicationError
  virtual Numbers scatter(std::vector<Numbers> const& parts) = 0;

  /// What to add to this process's steady clock to have that of rank 0; exactly 0 on its machine,
  /// else within half of a message's way there and back. Called by all.
  /// \throws CommunicationError
  virtual std::chrono::nanoseconds clock_offset() = 0;
};

/// What rank 0 has, on all processes. Called by all. \throws CommunicationError
JobSession::Numbers broadcast(JobSession& session, JobSession::Numbers const& numbers);

/// Waits for all processes. \throws CommunicationError
void barrier(JobSession& session);

/// The groups of a plan's job, each rank a process: this process's way to the others.
class ProcessWorld {
 public:
  virtual ~ProcessWorld() = default;
  virtual Communicator& communicator() = 0;
};
/// Called by all processes; plan and clock outlive the world. The clocks of all processes are taken
/// to show the same time.
using MakeProcessWorld =
    std::function<std::unique_ptr<ProcessWorld>(TrainingPlan const& plan, JobClock const& clock)>;

}  // namespace stagecraft
