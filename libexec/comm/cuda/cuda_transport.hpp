#pragma once

#include <mutex>

#include "libexec/comm/local_transport.hpp"

namespace stagecraft {

/// The transport between ranks that are threads of one process and share a CUDA device: kernels
/// that read the tensors of all members in rank order, and copies within the device. The host waits
/// for nothing; calls are ordered by the events of each rank's CudaCall.
///
/// Collectives in host memory are left to HostTransport.
class CudaTransport final : public LocalTransport {
 public:
  /// `machine`: with a virtual clock, the mutex that a rank holds while it computes. Transfers then
  /// hold it too, and are over when a call returns. Otherwise null.
  explicit CudaTransport(std::mutex* machine) : machine_{machine} {}

  void run(std::vector<Collective> const& calls) override;
  void copy(Message const& sent, Message const& received) override;
  std::shared_ptr<void> keep(Message& sent) override;

 private:
  template <typename Enqueue>
  void enqueue(CUstream_st* stream, Enqueue const& body);

  HostTransport host_;
  std::mutex* machine_;
};

}  // namespace stagecraft
