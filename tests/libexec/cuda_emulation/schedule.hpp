#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>

#include "tests/libexec/cuda_emulation/random_order.hpp"

namespace stagecraft::emulation {

/// That a stream has come to the place where an event was recorded.
struct Completion {
  bool is_reached = false;
  double seconds = 0;  ///< virtual time
};

/// One entry of a stream: a wait, or an action with a duration and the completion it reaches.
struct Work {
  std::shared_ptr<Completion> awaited;
  std::function<void()> action;
  double seconds = 0;
  std::shared_ptr<Completion> reached;
  double enqueued = 0;  ///< virtual time of the host
};

}  // namespace stagecraft::emulation

struct CUstream_st {
  unsigned flags = 0;
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
/// Virtual time: a stream's work begins when what is before it, what it waits for and the host that
/// enqueued it are through.
class Schedule {
 public:
  explicit Schedule(RandomOrder& order) : order_{order} {}

  cudaStream_t create_stream(unsigned flags);
  void destroy(cudaStream_t stream);
  cudaEvent_t create_event(unsigned flags);
  void destroy(cudaEvent_t event);
  /// \throws Failure  if it is the default stream, or none.
  CUstream_st& stream(cudaStream_t handle) const;
  /// \throws Failure
  CUevent_st& event(cudaEvent_t handle) const;

  /// \param seconds  virtual time that the action takes
  void enqueue(CUstream_st& stream, double seconds, std::function<void()> action);
  void record(CUstream_st& stream, CUevent_st& event);
  /// For the event's last record so far, if any.
  void wait(CUstream_st& stream, CUevent_st const& event);

  void run_until(std::function<bool()> const& is_done);
  void run_all();
  /// Until all streams that the default stream waits for are empty.
  void run_blocking_streams();
  /// At most one entry.
  void run_some();
  /// Drops all work; completions are reached.
  void abandon();

  void host_waited_until(double seconds);

 private:
  void erase(CUstream_st const& stream);
  CUstream_st* next() const;
  void run_one(CUstream_st& stream);
  void draw_priorities();

  RandomOrder& order_;
  std::vector<std::unique_ptr<CUstream_st>>
      streams_;  ///< in order of creation: a seed gives one order
  std::unordered_map<cudaEvent_t, std::unique_ptr<CUevent_st>> events_;
  double host_now_ = 0;
};

}  // namespace stagecraft::emulation
