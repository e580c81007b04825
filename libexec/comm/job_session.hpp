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

/// What a process that fails says and ends with.
struct ErrorReport {
  int exit_code = 1;
  std::string reason;  ///< whole lines, as they are printed
};

/// The processes of a job, of which this is one, from its start to its end.
class JobSession {
 public:
  /// Turns an error into its report; called by fail() only.
  using Describe = std::function<ErrorReport(std::exception_ptr const&)>;

  virtual ~JobSession() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;  ///< processes of the job

  /// Reports the error on standard error and ends this process, and with it the job. Any thread may
  /// call it.
  [[noreturn]] virtual void fail(std::exception_ptr const& error) = 0;
};

/// The groups of a plan's job, each rank a process: this process's way to the others.
class ProcessWorld {
 public:
  using Numbers = std::vector<std::int64_t>;

  virtual ~ProcessWorld() = default;
  virtual Communicator& communicator() = 0;

  /// Returns what each process has, by rank, on rank 0, and nothing elsewhere. Called by all.
  /// \throws CommunicationError
  virtual std::vector<Numbers> gather(Numbers const& numbers) = 0;

  /// What to add to this process's steady clock to have that of rank 0; exactly 0 on its machine,
  /// else within half of a message's way there and back. Called by all.
  /// \throws CommunicationError
  virtual std::chrono::nanoseconds clock_offset() = 0;
};

/// Called by all processes; plan and clock outlive the world. The clocks of all processes are taken
/// to show the same time.
using MakeProcessWorld =
    std::function<std::unique_ptr<ProcessWorld>(TrainingPlan const& plan, JobClock const& clock)>;

}  // namespace stagecraft
