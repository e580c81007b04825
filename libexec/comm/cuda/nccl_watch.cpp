#include "libexec/comm/cuda/nccl_watch.hpp"

#include "libexec/comm/communication_error.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr auto look_around = 200ms;

}  // namespace

void NcclLane::issued(cudaStream_t stream, char const* what) {
  std::scoped_lock const lock{mutex_};
  check(cudaEventRecord(reached_.get(), stream), "cudaEventRecord");
  last_ = Call{steady_clock::now(), what};
}

std::optional<std::string> NcclLane::obstacle(std::chrono::seconds timeout) {
  if (auto const error = comm_.error()) {
    char const* const last = ncclGetLastError(nullptr);
    return "NCCL, " + name_ + ": " + ncclGetErrorString(*error) +
           (last == nullptr || *last == '\0' ? "" : std::string{": "} + last);
  }
  std::scoped_lock const lock{mutex_};
  if (!last_) return std::nullopt;
  cudaError_t const status = cudaEventQuery(reached_.get());
  if (status == cudaSuccess) {
    last_.reset();
    return std::nullopt;
  }
  if (status != cudaErrorNotReady) {
    return "NCCL, " + name_ + ", " + last_->what + ": " + cudaGetErrorString(status);
  }
  if (steady_clock::now() < last_->time + timeout) return std::nullopt;
  return "NCCL, " + name_ + ": " + last_->what + " has not ended within " +
         std::to_string(timeout.count()) + " s";
}

NcclWatch::NcclWatch(std::vector<NcclLane*> lanes,
                     int device,
                     std::chrono::seconds timeout,
                     Fail fail)
    : lanes_{std::move(lanes)}, timeout_{timeout}, fail_{std::move(fail)}, thread_{[this, device] {
        watch(device);
      }} {}

NcclWatch::~NcclWatch() {
  {
    std::scoped_lock const lock{mutex_};
    must_stop_ = true;
  }
  stop_.notify_all();
  thread_.join();
}

void NcclWatch::watch(int device) {
  cudaSetDevice(device);
  std::unique_lock lock{mutex_};
  while (!stop_.wait_for(lock, look_around, [&] { return must_stop_; })) {
    for (NcclLane* const lane : lanes_) {
      auto const obstacle = lane->obstacle(timeout_);
      if (!obstacle) continue;
      lock.unlock();
      fail_(std::make_exception_ptr(CommunicationError{*obstacle}));
      return;
    }
  }
}

}  // namespace stagecraft
