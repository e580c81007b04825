#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include "libexec/comm/communicator.hpp"
#include "libsim/units/ids.hpp"

namespace stagecraft {

/// Whether a rank of a job whose ranks are threads of this process has failed. A rank that waits
/// for another one checks it, so that one failure ends all ranks.
class JobHealth {
 public:
  struct Failure {
    RankId rank{};
    std::string reason;
  };

  /// Keeps the first failure only; the others follow from it.
  void fail(RankId rank, std::string reason) {
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

/// Waits until `is_done()`. Pre: the lock is held.
/// \throws PeerFailure  if the job fails meanwhile.
template <typename Done>
void wait_while_healthy(std::condition_variable& changed,
                        std::unique_lock<std::mutex>& lock,
                        JobHealth const& health,
                        Done is_done) {
  constexpr std::chrono::milliseconds poll_interval{50};
  while (!is_done()) {
    if (health.has_failed()) throw PeerFailure{"another rank has failed"};
    changed.wait_for(lock, poll_interval);
  }
}

}  // namespace stagecraft
