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

/// The error report of a process: its text and exit code.
struct ErrorReport {
  int exit_code = 1;
  std::string reason;  ///< complete lines, printed as they are
};

/// This process as a member of its job, from the job's start to its end.
class JobSession {
 public:
  /// Makes the report of an error. Only fail() calls it.
  using Describe = std::function<ErrorReport(std::exception_ptr const&)>;

  virtual ~JobSession() = default;

  virtual RankId rank() const = 0;
  virtual int size() const = 0;  ///< number of processes

  /// Reports the error on standard error and ends this process, and with it the job. Any thread may
  /// call it.
  [[noreturn]] virtual void fail(std::exception_ptr const& error) = 0;
};

/// The groups of a plan's job in which each rank is a process, as this process sees them.
class ProcessWorld {
 public:
  using Numbers = std::vector<std::int64_t>;

  virtual ~ProcessWorld() = default;
  virtual Communicator& communicator() = 0;

  /// On rank 0 returns the numbers of all processes, by rank; elsewhere returns an empty list. All
  /// processes call it.
  /// \throws CommunicationError
  virtual std::vector<Numbers> gather(Numbers const& numbers) = 0;

  /// The offset from this process's steady clock to rank 0's: exactly 0 on its machine, otherwise
  /// with an error of at most half a round trip. All processes call it.
  /// \throws CommunicationError
  virtual std::chrono::nanoseconds clock_offset() = 0;
};

/// Makes the world of a plan. All processes call it; plan and clock must outlive the world. It
/// assumes that the clocks of all processes show the same time.
using MakeProcessWorld =
    std::function<std::unique_ptr<ProcessWorld>(TrainingPlan const& plan, JobClock const& clock)>;

/// The number of times that a process asks another one for the time.
inline constexpr int time_questions = 20;

/// This process's steady clock, in nanoseconds.
std::int64_t nanoseconds_now();

/// The offset from this process's steady clock to that of another process, whose time `ask`
/// returns. Uses the answer with the shortest round trip, and assumes that it is the time at the
/// middle of that round trip.
std::chrono::nanoseconds offset_of_clock(std::function<std::int64_t()> const& ask);

}  // namespace stagecraft
