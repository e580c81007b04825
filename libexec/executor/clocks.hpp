#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "libexec/backends/backend.hpp"
#include "libexec/comm/communicator.hpp"
#include "libexec/comm/thread_world.hpp"
#include "libsim/plan/message_cost.hpp"
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

/// Each rank has its own time; only one rank at a time computes on the machine.
class VirtualClock : public JobClock {
 public:
  /// Kernels that use one thread are timed by the CPU time of their thread, so that other load on
  /// the machine has no effect. Others are timed by real time.
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
  /// The rank that computes holds it.
  std::mutex& machine() { return machine_; }

 private:
  bool by_thread_;
  std::int64_t iteration_ = 0;
  std::mutex machine_;
};

/// The durations of communication for the virtual clock. The program implements it with a cost
/// model, which the executor does not depend on.
class CommunicationCosts {
 public:
  virtual ~CommunicationCosts() = default;
  virtual SimTime collective(Op const& op) const = 0;
  virtual MessageCost message(StageId from, StageId to) const = 0;
};

/// Communication that takes no time, for measurements of kernels alone.
class FreeCommunication : public CommunicationCosts {
 public:
  SimTime collective(Op const& /*op*/) const override { return SimTime{0}; }
  MessageCost message(StageId /*from*/, StageId /*to*/) const override { return {}; }
};

/// The time of one rank, on either a wall clock or a virtual one. With a virtual clock, `own_` is
/// the end of all work of its compute stream so far, and `computed_` the part that ran there.
class RankClock {
 public:
  explicit RankClock(WallClock& wall) : wall_{&wall} {}
  explicit RankClock(VirtualClock& virtual_clock) : virtual_{&virtual_clock} {}

  /// Uses the timeline of a device whose kernels run asynchronously to the host. With a virtual
  /// clock, the device measures computations; otherwise spans are its marks until the iteration is
  /// over.
  void follow(DeviceTimeline& device) { device_ = &device; }

  bool is_virtual() const { return virtual_ != nullptr; }
  /// Starts an iteration. `keeps_times`: whether spans of real time will be read.
  void restart(bool keeps_times) {
    own_ = SimTime{0};
    computed_ = SimTime{0};
    if (device_ != nullptr) device_->restart(keeps_times || is_virtual());
  }
  /// The span from now to now.
  TimeSpan instant() const {
    if (!is_virtual() && device_ != nullptr) {
      DeviceTimeline::Mark const mark = device_->mark();
      return {.marks = MarkSpan{mark, mark}};
    }
    SimTime const now = is_virtual() ? own_ : wall_->now();
    return {now, now};
  }
  /// 0 if only a mark tells.
  SimTime now() const { return instant().start; }
  /// The time from the start of the iteration until everything that was issued is done.
  SimTime elapsed() const {
    if (is_virtual()) return own_;
    if (device_ != nullptr) device_->synchronize();
    return wall_->now();
  }
  /// Makes the rank's compute stream wait until `time`.
  void wait_until(SimTime time) { own_ = std::max(own_, time); }

  /// Virtual clock: the time that computations took since the start of the iteration.
  SimTime computed() const { return computed_; }
  /// Virtual clock: sets whether computations are timed one by one, or a device may queue them.
  void times_computations(bool times) { times_computations_ = times; }

  /// Runs work that takes none of the rank's time; with a virtual clock, alone on the machine.
  template <typename Work>
  auto aside(Work const& work) {
    if (!is_virtual()) return work();
    std::scoped_lock const lock{virtual_->machine()};
    return work();
  }

  /// Runs a computation and returns when it ran. With a virtual clock it runs alone on the machine
  /// and takes the time that it really took.
  template <typename Computation>
  TimeSpan run(Computation compute) {
    if (!is_virtual()) {
      TimeSpan const start = instant();
      compute();
      return joined(start, instant());
    }
    std::scoped_lock const lock{virtual_->machine()};
    SimTime const start = own_;
    SimTime const duration = measured(compute);
    own_ += duration;
    computed_ += duration;
    return {start, own_};
  }

 private:
  template <typename Computation>
  SimTime measured(Computation const& compute) {
    if (!times_computations_) {
      compute();
      return SimTime{0};
    }
    if (device_ == nullptr) {
      SimTime const begin = virtual_->stopwatch();
      compute();
      return virtual_->stopwatch() - begin;
    }
    DeviceTimeline::Mark const begin = device_->mark();
    compute();
    DeviceTimeline::Mark const end = device_->mark();
    device_->synchronize();
    return device_->time_of(end) - device_->time_of(begin);
  }

  WallClock* wall_ = nullptr;
  VirtualClock* virtual_ = nullptr;
  DeviceTimeline* device_ = nullptr;
  SimTime own_{0};
  SimTime computed_{0};
  bool times_computations_ = true;
};

}  // namespace stagecraft
