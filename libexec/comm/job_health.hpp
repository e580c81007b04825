#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

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

}  // namespace stagecraft
