#include "libexec/comm/cuda/nccl_watch.hpp"

#include "libexec/comm/communicator.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr auto look_around = 200ms;

}  // namespace

NcclLane::Call NcclLane::begin_call(cudaStream_t stream, char const* what) {
  Call call;
  {
    std::scoped_lock const lock{mutex_};
    if (!over_.empty()) {
      call = std::move(over_.back());
      over_.pop_back();
    }
  }
  if (call.begun == nullptr) call = {what, make_event(), make_event()};
  call.what = what;
  call.seen.reset();
  check(cudaEventRecord(call.begun.get(), stream), "cudaEventRecord");
  return call;
}

void NcclLane::end_call(Call call, cudaStream_t stream) {
  check(cudaEventRecord(call.ended.get(), stream), "cudaEventRecord");
  std::scoped_lock const lock{mutex_};
  under_way_.push_back(std::move(call));
}

std::optional<std::string> NcclLane::obstacle(std::chrono::seconds timeout) {
  if (auto const error = comm_.error()) {
    char const* const last = ncclGetLastError(nullptr);
    return "NCCL, " + name_ + ": " + ncclGetErrorString(*error) +
           (last == nullptr || *last == '\0' ? "" : std::string{": "} + last);
  }
  std::scoped_lock const lock{mutex_};
  while (!under_way_.empty()) {
    Call& call = under_way_.front();
    cudaError_t status = cudaEventQuery(call.ended.get());
    if (status == cudaSuccess) {
      over_.push_back(std::move(call));
      under_way_.pop_front();
      continue;
    }
    if (status == cudaErrorNotReady) status = cudaEventQuery(call.begun.get());
    if (status == cudaErrorNotReady) return std::nullopt;
    if (status != cudaSuccess) {
      return "NCCL, " + name_ + ", " + call.what + ": " + cudaGetErrorString(status);
    }
    if (!call.seen) call.seen = steady_clock::now();
    if (steady_clock::now() < *call.seen + timeout) return std::nullopt;
    return "NCCL, " + name_ + ": " + call.what + " has not ended within " +
           std::to_string(timeout.count()) + " s";
  }
  return std::nullopt;
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
