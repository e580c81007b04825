#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "libexec/comm/cuda/nccl_comm.hpp"
#include "libexec/kernels/cuda/cuda_handles.hpp"

namespace stagecraft {

/// A communicator and its calls in flight. The device is the calling thread's. Under `mutex_`, each
/// call that was issued is in `under_way_`, in issue order, or its events wait in `over_` for
/// reuse.
class NcclLane {
 public:
  NcclLane(std::string name, NcclComm comm) : name_{std::move(name)}, comm_{std::move(comm)} {}

  NcclComm& comm() { return comm_; }
  /// Makes calls on a stream and records them, described by `what`, until the stream has passed
  /// them.
  template <typename Calls>
  void issue(cudaStream_t stream, char const* what, Calls const& calls) {
    Call call = begin_call(stream, what);
    calls();
    end_call(std::move(call), stream);
  }

  /// Returns a description of the call that has been running for longer than the timeout, if there
  /// is one. A call that its stream has not reached does not count. Called by the watching thread.
  std::optional<std::string> obstacle(std::chrono::seconds timeout);

 private:
  struct Call {
    char const* what = nullptr;
    CudaEvent begun;
    CudaEvent ended;
    std::optional<std::chrono::steady_clock::time_point> seen{};  ///< first seen running
  };

  Call begin_call(cudaStream_t stream, char const* what);
  void end_call(Call call, cudaStream_t stream);

  std::string name_;
  NcclComm comm_;
  std::mutex mutex_;
  std::deque<Call> under_way_;  ///< in issue order
  std::vector<Call> over_;      ///< finished calls, whose events are reused
};

/// A thread that checks whether communicators make progress, because a kernel that waits for a dead
/// peer never ends.
class NcclWatch {
 public:
  using Fail = std::function<void(std::exception_ptr const& error)>;

  /// The lanes must outlive the object. `fail` does not return.
  NcclWatch(std::vector<NcclLane*> lanes, int device, std::chrono::seconds timeout, Fail fail);
  ~NcclWatch();
  NcclWatch(NcclWatch const&) = delete;
  NcclWatch(NcclWatch&&) = delete;
  NcclWatch& operator=(NcclWatch const&) = delete;
  NcclWatch& operator=(NcclWatch&&) = delete;

 private:
  void watch(int device);

  std::vector<NcclLane*> lanes_;
  std::chrono::seconds timeout_;
  Fail fail_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool must_stop_ = false;
  std::thread thread_;
};

}  // namespace stagecraft
