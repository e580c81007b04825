#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "libexec/comm/communicator.hpp"
#include "libexec/comm/thread_group.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Real time.
class WallClock : public JobClock {
 public:
  using Instant = std::chrono::steady_clock::time_point;
  /// Starts an iteration. Pre: no rank looks at the clock.
  void restart(Instant start = std::chrono::steady_clock::now()) {
    start_ = start;
    ++iteration_;
  }
  std::int64_t iteration() const override { return iteration_; }
  bool is_virtual() const override { return false; }
  SimTime now() const override {
    return std::chrono::duration_cast<SimTime>(std::chrono::steady_clock::now() - start_);
  }

 private:
  Instant start_ = std::chrono::steady_clock::now();
  std::int64_t iteration_ = 0;
};

/// Each rank has its own time; the machine is lent to one of them after the other.
class VirtualClock : public JobClock {
 public:
  /// Kernels that use one thread are timed by what their thread computed: whatever else the machine
  /// does leaves no trace. Others take the real time.
  explicit VirtualClock(bool kernels_use_one_thread) : by_thread_{kernels_use_one_thread} {}

  SimTime stopwatch() const {
    if (!by_thread_) {
      return std::chrono::duration_cast<SimTime>(
          std::chrono::steady_clock::now().time_since_epoch());
    }
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::duration_cast<SimTime>(std::chrono::seconds{time.tv_sec} +
                                               std::chrono::nanoseconds{time.tv_nsec});
  }
  void restart() { ++iteration_; }
  std::int64_t iteration() const override { return iteration_; }
  bool is_virtual() const override { return true; }
  SimTime now() const override { return SimTime{0}; }
  /// Held by whoever computes.
  std::mutex& machine() { return machine_; }

 private:
  bool by_thread_;
  std::int64_t iteration_ = 0;
  std::mutex machine_;
};

/// What communication costs where time is virtual. The program that executes fills it from a cost
/// model, which an executor knows nothing of.
class CommunicationPrices {
 public:
  virtual ~CommunicationPrices() = default;
  virtual SimTime collective(Op const& op) const = 0;
  struct MessageTime {
    SimTime latency{0};
    SimTime occupancy{0};
  };
  virtual MessageTime message(int from_stage, int to_stage) const = 0;
};

/// Time as one rank sees it.
class RankClock {
 public:
  explicit RankClock(WallClock& wall) : wall_{&wall} {}
  explicit RankClock(VirtualClock& virtual_clock) : virtual_{&virtual_clock} {}

  bool is_virtual() const { return virtual_ != nullptr; }
  /// Pre: virtual.
  void restart() { own_ = SimTime{0}; }
  SimTime now() const { return is_virtual() ? own_ : wall_->now(); }
  /// The rank's compute stream goes on no earlier than `time`.
  void wait_until(SimTime time) { own_ = std::max(own_, time); }

  /// Runs a computation and says when it ran. Virtual: alone on the machine, for as long as it
  /// really took.
  template <typename Computation>
  TimeSpan run(Computation compute) {
    if (!is_virtual()) {
      SimTime const start = wall_->now();
      compute();
      return {start, wall_->now()};
    }
    std::scoped_lock const lock{virtual_->machine()};
    SimTime const begin = virtual_->stopwatch();
    compute();
    SimTime const start = own_;
    own_ += virtual_->stopwatch() - begin;
    return {start, own_};
  }

 private:
  WallClock* wall_ = nullptr;
  VirtualClock* virtual_ = nullptr;
  SimTime own_{0};
};

}  // namespace stagecraft
