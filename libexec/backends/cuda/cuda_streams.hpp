#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "libexec/backends/backend.hpp"
#include "libexec/kernels/cuda/cuda_handles.hpp"
#include "libsim/program/op.hpp"
#include "libsim/program/stream.hpp"

namespace stagecraft {

/// The streams of one rank on its device, and the events that order and time them. Streams are
/// ordered by events only; the host waits only when it reads.
class CudaStreams final : public DeviceTimeline {
 public:
  /// Makes `device` the calling thread's. \throws DeviceError
  explicit CudaStreams(int device);

  cudaStream_t stream(Stream which) const {
    return streams_[static_cast<std::size_t>(which)].get();
  }
  cudaStream_t send() const { return send_.get(); }
  cudaStream_t receive() const { return receive_.get(); }
  cudaStream_t compute() const { return stream(Stream::compute); }
  /// Must be called for each launch on the compute stream, so that the next mark is a new place.
  void note_compute() { compute_moved_ = true; }

  /// An event that is not recorded yet. It is valid until the next restart().
  cudaEvent_t event();
  /// Records an event on the compute stream, after everything that was issued to it.
  cudaEvent_t compute_event();
  /// Makes the compute stream wait for the event.
  void compute_waits(cudaEvent_t event);
  /// The mark of an event that is, or will be, recorded.
  Mark mark_of(cudaEvent_t event);

  void restart(bool keeps_marks) override;
  Mark mark() override;
  void synchronize() override;
  SimTime time_of(Mark mark) const override;

 private:
  std::array<CudaStream, stream_rows.size()> streams_;  ///< null if no op of a device runs on it
  CudaStream send_;
  CudaStream receive_;
  CudaEvent zero_;
  std::vector<CudaEvent> events_;
  std::size_t used_events_ = 0;
  std::vector<cudaEvent_t> marks_;
  bool keeps_marks_ = false;
  Mark compute_mark_ = 0;       ///< the last mark of the compute stream
  bool compute_moved_ = false;  ///< whether a kernel was launched since
};

}  // namespace stagecraft
