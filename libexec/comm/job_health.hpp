#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

namespace stagecraft {

/// Whether all ranks of a job in this process are still at work. Whoever waits for another rank
/// looks here, so that a rank that fails ends all of them.
class JobHealth {
 public:
  struct Failure {
    int rank = 0;
    std::string reason;
  };

  /// The first failure is kept: what follows from it is not of interest.
  void fail(int rank, std::string reason) {
    std::scoped_lock const lock{mutex_};
    if (!failure_) failure_ = Failure{rank, std::move(reason)};
    has_failed_ = true;
  }
  bool has_failed() const { return has_failed_; }
  std::optional<Failure> failure() const {
    std::scoped_lock const lock{mutex_};
    return failure_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Failure> failure_;
  std::atomic<bool> has_failed_ = false;
};

}  // namespace stagecraft
