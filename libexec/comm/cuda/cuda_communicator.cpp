#include "libexec/comm/cuda/cuda_communicator.hpp"

#include <cuda_runtime_api.h>

#include <mutex>
#include <span>

#include "libexec/comm/collectives.hpp"
#include "libexec/kernels/cuda/cuda_check.hpp"
#include "libexec/kernels/cuda/reduce_members.hpp"

namespace stagecraft {
namespace {

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

void wait_for(CudaCall const& call, cudaStream_t stream) {
  check(cudaStreamWaitEvent(stream, call.ready, 0), "cudaStreamWaitEvent");
}

void record(cudaEvent_t event, cudaStream_t stream) {
  if (event != nullptr) check(cudaEventRecord(event, stream), "cudaEventRecord");
}

void copy_bytes(void* target, void const* source, std::size_t bytes, cudaStream_t stream) {
  if (target == source || bytes == 0) return;
  check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, stream),
        "cudaMemcpyAsync");
}

void move(std::vector<Collective> const& calls, cudaStream_t stream) {
  Collective const& first = calls.front();
  run_in_memory(
      calls,
      [&](std::span<void const* const> sources, void* target, std::int64_t elements) {
        reduce_on_device(first.reduction, first.type, sources, target, elements, stream);
      },
      [&](void* target, void const* source, std::int64_t elements) {
        copy_bytes(target, source, static_cast<std::size_t>(elements * element_size(first.type)),
                   stream);
      });
}

template <typename Enqueue>
void CudaTransport::enqueue(CUstream_st* stream, Enqueue const& body) {
  if (machine_ == nullptr) return body();
  std::scoped_lock const lock{*machine_};
  body();
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

void CudaTransport::run(std::vector<Collective> const& calls) {
  if (calls.front().in_host_memory) return host_.run(calls);
  require_alike(calls);
  // The stream is the first member's, so that the collectives of a group run in order.
  cudaStream_t const stream = calls.front().cuda.stream;
  enqueue(stream, [&] {
    for (Collective const& call : calls) wait_for(call.cuda, stream);
    for (Collective const& call : calls) record(call.cuda.begun, stream);
    move(calls, stream);
    for (Collective const& call : calls) record(call.cuda.done, stream);
  });
}

void CudaTransport::copy(Message const& sent, Message const& received) {
  cudaStream_t const stream = sent.cuda.stream;
  enqueue(stream, [&] {
    wait_for(sent.cuda, stream);
    wait_for(received.cuda, stream);
    record(sent.cuda.begun, stream);
    record(received.cuda.begun, stream);
    copy_bytes(received.data, sent.data, sent.bytes, stream);
    record(sent.cuda.done, stream);
    record(received.cuda.done, stream);
  });
}

std::shared_ptr<void> CudaTransport::keep(Message& sent) {
  cudaStream_t const stream = sent.cuda.stream;
  void* kept = nullptr;
  enqueue(stream, [&] {
    wait_for(sent.cuda, stream);
    check(cudaMallocAsync(&kept, sent.bytes, stream), "cudaMallocAsync");
    record(sent.cuda.begun, stream);
    copy_bytes(kept, sent.data, sent.bytes, stream);
    record(sent.cuda.done, stream);
  });
  sent.data = kept;
  // The sender's part is over; the copy that follows concerns only the stream and the receiver.
  sent.cuda.begun = nullptr;
  sent.cuda.done = nullptr;
  return {kept, [stream](void* memory) { cudaFreeAsync(memory, stream); }};
}

}  // namespace

CudaCall CudaCommunicator::call_on(cudaStream_t stream) {
  return {.stream = stream,
          .ready = streams_.compute_event(),
          .begun = streams_.event(),
          .done = streams_.event()};
}

TimeSpan CudaCommunicator::settle(CudaCall const& call, TimeSpan const& time) {
  if (call.stream == nullptr) {
    if (is_virtual_) return time;
    SimTime const now{streams_.mark()};
    return {now, now};
  }
  streams_.compute_waits(call.done);
  if (is_virtual_) return time;
  return {SimTime{streams_.mark_of(call.begun)}, SimTime{streams_.mark_of(call.done)}};
}

Communicator::Ticket CudaCommunicator::start(Collective const& collective) {
  Collective own = collective;
  if (!own.in_host_memory) own.cuda = call_on(streams_.stream(groups_[own.group].stream));
  Ticket const ticket = inside_.start(own);
  collectives_.emplace(std::pair{own.group, ticket}, own.cuda);
  return ticket;
}

TimeSpan CudaCommunicator::finish(GroupId group, Ticket ticket) {
  TimeSpan const time = inside_.finish(group, ticket);
  return settle(collectives_.extract({group, ticket}).mapped(), time);
}

void CudaCommunicator::post(Message const& message) {
  Message own = message;
  own.cuda = call_on(message.end == Transfer::End::send ? streams_.send() : streams_.receive());
  messages_[{message.end, message.number}] = own.cuda;
  inside_.post(own);
}

TimeSpan CudaCommunicator::wait(Message const& message) {
  TimeSpan const time = inside_.wait(message);
  return settle(messages_.extract({message.end, message.number}).mapped(), time);
}

std::unique_ptr<Communicator> make_device_communicator(Communicator& inside,
                                                       RankGroups const& groups,
                                                       Backend& backend,
                                                       bool is_virtual) {
  auto* const streams = dynamic_cast<CudaStreams*>(backend.timeline());  // null on other devices
  if (streams == nullptr) return nullptr;
  return std::make_unique<CudaCommunicator>(inside, groups, *streams, is_virtual);
}

std::unique_ptr<LocalTransport> make_local_transport(DeviceKind device, std::mutex* machine) {
  if (device == DeviceKind::cpu) return std::make_unique<HostTransport>();
  return std::make_unique<CudaTransport>(machine);
}

}  // namespace stagecraft
