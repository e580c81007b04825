#pragma once

#include <chrono>
#include <condition_variable>
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

/// A communicator, and what was issued on it last. The device is the calling thread's.
class NcclLane {
 public:
  NcclLane(std::string name, NcclComm comm)
      : name_{std::move(name)}, comm_{std::move(comm)}, reached_{make_event()} {}

  NcclComm& comm() { return comm_; }
  /// After a call: `stream` has it.
  void issued(cudaStream_t stream, char const* what);

  /// Why it does not go on, if so. Called by the watching thread.
  std::optional<std::string> obstacle(std::chrono::seconds timeout);

 private:
  struct Call {
    std::chrono::steady_clock::time_point time;
    char const* what = nullptr;
  };
  std::string name_;
  NcclComm comm_;
  CudaEvent reached_;
  std::mutex mutex_;
  std::optional<Call> last_;  ///< until the stream has reached it
};

/// A thread that looks whether communicators go on, since a kernel that waits for a dead peer waits
/// for ever.
class NcclWatch {
 public:
  using Fail = std::function<void(std::exception_ptr const& error)>;

  /// The lanes outlive it. `fail` does not return.
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
