#include "tests/libexec/cuda_emulation/schedule.hpp"

#include <algorithm>
#include <stdexcept>

namespace stagecraft::emulation {

cudaStream_t Schedule::create_stream(unsigned flags, int device) {
  CUstream_st& stream = *streams_.emplace_back(std::make_unique<CUstream_st>());
  stream.flags = flags;
  stream.device = device;
  return &stream;
}

void Schedule::destroy(cudaStream_t stream_handle) {
  CUstream_st& gone = stream(stream_handle);
  gone.is_destroyed = true;
  if (gone.work.empty()) erase(gone);
}

void Schedule::erase(CUstream_st const& stream) {
  std::erase_if(streams_, [&](auto const& entry) { return entry.get() == &stream; });
}

cudaEvent_t Schedule::create_event(unsigned flags) {
  auto event = std::make_unique<CUevent_st>();
  event->flags = flags;
  CUevent_st* const handle = event.get();
  events_.emplace(handle, std::move(event));
  return handle;
}

void Schedule::destroy(cudaEvent_t handle) {
  event(handle);
  events_.erase(handle);
}

CUstream_st& Schedule::stream(cudaStream_t handle) const {
  if (handle == nullptr) {
    throw Failure{cudaErrorNotSupported, "the default stream is not used here; name a stream"};
  }
  auto const found = std::find_if(streams_.begin(), streams_.end(),
                                  [&](auto const& entry) { return entry.get() == handle; });
  if (found == streams_.end() || (*found)->is_destroyed) {
    throw Failure{cudaErrorInvalidResourceHandle, "no such stream, or destroyed"};
  }
  return **found;
}

CUevent_st& Schedule::event(cudaEvent_t handle) const {
  auto const found = events_.find(handle);
  if (found == events_.end()) {
    throw Failure{cudaErrorInvalidResourceHandle, "no such event, or destroyed"};
  }
  return *found->second;
}

void Schedule::enqueue(CUstream_st& stream, double seconds, std::function<void()> action) {
  stream.work.push_back({nullptr, {}, std::move(action), seconds, nullptr, host_now_});
}

std::shared_ptr<Completion> Schedule::enqueue_arrival(CUstream_st& stream,
                                                      double seconds,
                                                      std::function<bool()> has_come) {
  auto reached = std::make_shared<Completion>();
  stream.work.push_back({nullptr, std::move(has_come), {}, seconds, reached, host_now_});
  ++arrivals_;
  return reached;
}

void Schedule::record(CUstream_st& stream, CUevent_st& event) {
  event.last_record = std::make_shared<Completion>();
  stream.work.push_back({nullptr, {}, {}, 0, event.last_record, host_now_});
}

void Schedule::wait(CUstream_st& stream, CUevent_st const& event) {
  wait(stream, event.last_record);
}

void Schedule::wait(CUstream_st& stream, std::shared_ptr<Completion> const& completion) {
  if (completion != nullptr) {
    stream.work.push_back({completion, {}, {}, 0, nullptr, host_now_});
  }
}

void Schedule::draw_priorities() {
  for (auto const& stream : streams_) stream->priority = order_.next();
}

CUstream_st* Schedule::next() const {
  CUstream_st* best = nullptr;
  for (auto const& stream : streams_) {
    if (stream->work.empty()) continue;
    Work const& work = stream->work.front();
    if (work.awaited != nullptr && !work.awaited->is_reached) continue;
    if (best != nullptr && stream->priority < best->priority) continue;
    if (work.has_come && !work.has_come()) continue;
    best = stream.get();
  }
  return best;
}

void Schedule::run_one(CUstream_st& stream) {
  Work work = std::move(stream.work.front());
  stream.work.pop_front();
  double begin = std::max(stream.now, work.enqueued);
  if (work.awaited != nullptr) begin = std::max(begin, work.awaited->seconds);
  stream.now = begin + work.seconds;
  if (work.has_come) --arrivals_;
  if (work.action) work.action();
  if (work.reached != nullptr) *work.reached = {true, stream.now};
  if (stream.work.empty() && stream.is_destroyed) erase(stream);
}

void Schedule::run_until(std::function<bool()> const& is_done) {
  draw_priorities();
  while (!is_done()) {
    if (order_.below(8) == 0) draw_priorities();
    CUstream_st* const stream = next();
    if (stream != nullptr) {
      run_one(*stream);
    } else if (arrivals_ > 0) {
      pause_();
    } else {
      // A wait is for a record that was enqueued before it, so there is always one to go on with.
      throw std::logic_error{"streams that wait for each other"};
    }
  }
}

void Schedule::run_all(int device) {
  run_until([&] {
    return std::all_of(streams_.begin(), streams_.end(), [&](auto const& entry) {
      return entry->work.empty() || entry->device != device;
    });
  });
  for (auto const& entry : streams_) {
    if (entry->device == device) host_waited_until(entry->now);
  }
}

void Schedule::run_blocking_streams(int device) {
  run_until([&] {
    return std::all_of(streams_.begin(), streams_.end(), [&](auto const& entry) {
      return entry->work.empty() || entry->device != device ||
             (entry->flags & cudaStreamNonBlocking) != 0;
    });
  });
}

void Schedule::run_some() {
  if (order_.below(2) == 0) return;
  draw_priorities();
  if (CUstream_st* const stream = next()) run_one(*stream);
}

void Schedule::run_at_most(int entries) {
  draw_priorities();
  for (int i = 0; i < entries; ++i) {
    CUstream_st* const stream = next();
    if (stream == nullptr) return;
    run_one(*stream);
  }
}

void Schedule::abandon() {
  arrivals_ = 0;
  for (auto const& stream : streams_) {
    for (Work const& work : stream->work) {
      if (work.reached != nullptr) work.reached->is_reached = true;
    }
    stream->work.clear();
  }
  std::erase_if(streams_, [](auto const& stream) { return stream->is_destroyed; });
}

void Schedule::host_waited_until(double seconds) { host_now_ = std::max(host_now_, seconds); }

}  // namespace stagecraft::emulation
