#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stagecraft::emulation {

/// What a call of the runtime's interface returns, and why.
class Failure : public std::runtime_error {
 public:
  Failure(cudaError_t code, std::string const& why) : std::runtime_error{why}, code_{code} {}
  cudaError_t code() const { return code_; }

 private:
  cudaError_t code_;
};

/// A kernel does what no device would do, or what hangs one.
class KernelFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Cheap random numbers for the order in which things happen: SplitMix64 (Steele et al. 2014).
class RandomOrder {
 public:
  explicit RandomOrder(std::uint64_t seed) : state_{seed} {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }

  /// Of [0, count); count < 2^32.
  std::size_t below(std::size_t count) { return (next() >> 32U) * count >> 32U; }

  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) std::swap(values[i], values[below(i + 1)]);
  }

 private:
  std::uint64_t state_;
};

/// What a device takes in virtual time: to start anything, and to move bytes.
constexpr double start_seconds = 1e-6;
constexpr double seconds_per_byte = 1e-12;

inline double seconds_of(std::size_t bytes) {
  return start_seconds + static_cast<double>(bytes) * seconds_per_byte;
}

/// That a stream has come to the place where an event was recorded.
struct Completion {
  bool is_reached = false;
  double seconds = 0;  ///< virtual time
};

/// One entry of a stream: a wait, or an action with a duration and the completion it reaches.
struct Work {
  std::shared_ptr<Completion> awaited;
  /// Null, or whether what is outside of this process has come; asked again and again.
  std::function<bool()> has_come;
  std::function<void()> action;
  double seconds = 0;
  std::shared_ptr<Completion> reached;
  double enqueued = 0;  ///< virtual time of the host
};

}  // namespace stagecraft::emulation

struct CUstream_st {
  unsigned flags = 0;
  int device = 0;
  bool is_destroyed = false;  ///< gone when its work is done
  std::deque<stagecraft::emulation::Work> work;
  double now = 0;  ///< virtual time, seconds
  std::uint64_t priority = 0;
};

struct CUevent_st {
  unsigned flags = 0;
  std::shared_ptr<stagecraft::emulation::Completion> last_record;  ///< null before the first
};

namespace stagecraft::emulation {

/// Streams, events, and the order in which the streams' work is done when somebody waits for some
/// of it: each stream's in its order and after the events that it waits for, else at random.
/// Streams get random priorities, which change now and then; the one that may run and has the
/// highest runs. That finds missing waits better than dice for every step (Burckhardt et al. 2010).
///
/// Work may wait for what is outside of the process, a peer: other streams go on meanwhile, and where
/// there is nothing else to do, whoever waits pauses and looks again.
///
/// Virtual time: a stream's work begins when what is before it, what it waits for and the host that
/// enqueued it are through.
class Schedule {
 public:
  /// `pause`: lets other threads call, for a moment.
  Schedule(RandomOrder& order, std::function<void()> pause)
      : order_{order}, pause_{std::move(pause)} {}

  cudaStream_t create_stream(unsigned flags, int device);
  void destroy(cudaStream_t stream);
  cudaEvent_t create_event(unsigned flags);
  void destroy(cudaEvent_t event);
  /// \throws Failure  if it is the default stream, or none.
  CUstream_st& stream(cudaStream_t handle) const;
  /// \throws Failure
  CUevent_st& event(cudaEvent_t handle) const;

  /// \param seconds  virtual time that the action takes
  void enqueue(CUstream_st& stream, double seconds, std::function<void()> action);
  /// Work that is over when `has_come` says so. \returns what it reaches
  std::shared_ptr<Completion> enqueue_arrival(CUstream_st& stream,
                                              double seconds,
                                              std::function<bool()> has_come);
  void record(CUstream_st& stream, CUevent_st& event);
  /// For the event's last record so far, if any.
  void wait(CUstream_st& stream, CUevent_st const& event);
  void wait(CUstream_st& stream, std::shared_ptr<Completion> const& completion);

  void run_until(std::function<bool()> const& is_done);
  void run_all(int device);
  /// Until all streams that the default stream waits for are empty.
  void run_blocking_streams(int device);
  /// At most one entry.
  void run_some();
  /// Whether any work waits for what is outside, or will.
  bool awaits_arrivals() const { return arrivals_ > 0; }
  /// What can run now, up to so many entries.
  void run_at_most(int entries);
  /// Drops all work; completions are reached.
  void abandon();

  void host_waited_until(double seconds);

 private:
  void erase(CUstream_st const& stream);
  CUstream_st* next() const;
  void run_one(CUstream_st& stream);
  void draw_priorities();

  RandomOrder& order_;
  std::function<void()> pause_;
  int arrivals_ = 0;  ///< entries that wait for what is outside
  std::vector<std::unique_ptr<CUstream_st>>
      streams_;  ///< in order of creation: a seed gives one order
  std::unordered_map<cudaEvent_t, std::unique_ptr<CUevent_st>> events_;
  double host_now_ = 0;
};

}  // namespace stagecraft::emulation
