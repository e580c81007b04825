#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "libexec/comm/communicator.hpp"
#include "libexec/comm/job_health.hpp"

namespace stagecraft {

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
