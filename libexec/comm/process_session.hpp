#pragma once

#include <chrono>
#include <memory>

#include "libexec/comm/job_session.hpp"
#include "libexec/comm/process_environment.hpp"

namespace stagecraft {

class ProcessWatcher;

/// The processes of a job without MPI: each has a TCP connection to rank 0.
///
/// A thread of each process watches its connections. A process that is killed is noticed when its
/// connection closes, a machine that vanishes when nothing is heard of it; both end the run with a
/// message that names the rank.
class ProcessSession final : public JobSession {
 public:
  struct Patience {
    std::chrono::seconds meeting{120};  ///< for all processes to come
    std::chrono::seconds silence{30};   ///< without a sign of life
  };

  /// \throws CommunicationError  where the processes do not find each other.
  ProcessSession(ProcessPlace const& place, Describe describe, Patience patience);
  ProcessSession(ProcessPlace const& place, Describe describe)
      : ProcessSession{place, std::move(describe), Patience{}} {}
  ~ProcessSession() override;
  ProcessSession(ProcessSession const&) = delete;
  ProcessSession(ProcessSession&&) = delete;
  ProcessSession& operator=(ProcessSession const&) = delete;
  ProcessSession& operator=(ProcessSession&&) = delete;

  int rank() const override { return place_.rank; }
  int size() const override { return place_.size; }
  [[noreturn]] void fail(std::exception_ptr const& error) override;
  std::vector<Numbers> gather(Numbers const& numbers) override;
  Numbers scatter(std::vector<Numbers> const& parts) override;
  std::chrono::nanoseconds clock_offset() override;

  ProcessPlace const& place() const { return place_; }

 private:
  ProcessPlace place_;
  Describe describe_;
  std::unique_ptr<ProcessWatcher> watcher_;
};

}  // namespace stagecraft
