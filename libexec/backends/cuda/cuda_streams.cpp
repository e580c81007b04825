#include "libexec/backends/cuda/cuda_streams.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace stagecraft {
namespace {

/// Whether ops of a device run on it.
bool has_ops(Stream stream) {
  StreamKind const kind = kind_of(stream);
  return kind != StreamKind::messages && kind != StreamKind::offload;
}

}  // namespace

CudaStreams::CudaStreams(int device) {
  check(cudaSetDevice(device), "cudaSetDevice");
  auto const [lowest, highest] = stream_priorities();
  for (StreamRow const& row : stream_rows) {
    if (!has_ops(row.stream)) continue;
    // Communication has priority: it needs few multiprocessors, and other ranks wait for it.
    streams_[static_cast<std::size_t>(row.stream)] =
        make_stream(row.stream == Stream::compute ? lowest : highest);
  }
  send_ = make_stream(highest);
  receive_ = make_stream(highest);
  zero_ = make_event();
  restart(false);
}

cudaEvent_t CudaStreams::event() {
  if (used_events_ == events_.size()) events_.push_back(make_event());
  return events_[used_events_++].get();
}

cudaEvent_t CudaStreams::compute_event() {
  cudaEvent_t const reached = event();
  check(cudaEventRecord(reached, compute()), "cudaEventRecord");
  return reached;
}

void CudaStreams::compute_waits(cudaEvent_t event) {
  check(cudaStreamWaitEvent(compute(), event, 0), "cudaStreamWaitEvent");
  note_compute();
}

DeviceTimeline::Mark CudaStreams::mark_of(cudaEvent_t event) {
  if (!keeps_marks_) return 0;
  marks_.push_back(event);
  return static_cast<Mark>(marks_.size()) - 1;
}

DeviceTimeline::Mark CudaStreams::mark() {
  if (!keeps_marks_) return 0;
  // If nothing was issued since the last mark, its place is the same, even if events of other
  // streams were marked in between.
  if (!compute_moved_) return compute_mark_;
  compute_mark_ = mark_of(compute_event());
  compute_moved_ = false;
  return compute_mark_;
}

void CudaStreams::synchronize() {
  for (CudaStream const& stream : streams_) {
    if (stream) check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  }
  check(cudaStreamSynchronize(send()), "cudaStreamSynchronize");
  check(cudaStreamSynchronize(receive()), "cudaStreamSynchronize");
  // The next kernel starts later than the place that was marked last.
  compute_moved_ = true;
}

void CudaStreams::restart(bool keeps_marks) {
  synchronize();
  used_events_ = 0;
  keeps_marks_ = keeps_marks;
  check(cudaEventRecord(zero_.get(), compute()), "cudaEventRecord");
  // Mark 0 is time 0.
  marks_.assign(1, zero_.get());
  compute_mark_ = 0;
  compute_moved_ = false;
}

SimTime CudaStreams::time_of(Mark mark) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, zero_.get(), marks_.at(static_cast<std::size_t>(mark))),
        "cudaEventElapsedTime");
  // Streams of other ranks may have started before this rank's time 0.
  return std::max(SimTime{0}, SimTime{std::llround(static_cast<double>(milliseconds) * 1e9)});
}

}  // namespace stagecraft
