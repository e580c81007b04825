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
/// for nothing; calls are ordered by the events of each rank's DeviceCall.
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

/// A copy of a message that its sender has left. The sender's part is over: what follows concerns
/// only the stream and the receiver.
struct KeptMessage {
  explicit KeptMessage(DeviceCall const& sent)
      : call{.stream = sent.stream, .ready = sent.ready, .begun = nullptr, .done = nullptr} {}
  ~KeptMessage() {
    if (data != nullptr) cudaFreeAsync(data, call.stream);
  }
  KeptMessage(KeptMessage const&) = delete;
  KeptMessage(KeptMessage&&) = delete;
  KeptMessage& operator=(KeptMessage const&) = delete;
  KeptMessage& operator=(KeptMessage&&) = delete;

  DeviceCall call;
  void* data = nullptr;
};

void wait_for(DeviceCall const& call, cudaStream_t stream) {
  check(cudaStreamWaitEvent(stream, call.ready, 0), "cudaStreamWaitEvent");
  if (call.after == nullptr) return;
  check(cudaStreamWaitEvent(stream, call.after, 0), "cudaStreamWaitEvent");
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
  cudaStream_t const stream = calls.front().on_device->stream;
  enqueue(stream, [&] {
    for (Collective const& call : calls) wait_for(*call.on_device, stream);
    for (Collective const& call : calls) record(call.on_device->begun, stream);
    move(calls, stream);
    for (Collective const& call : calls) record(call.on_device->done, stream);
  });
}

void CudaTransport::copy(Message const& sent, Message const& received) {
  cudaStream_t const stream = sent.on_device->stream;
  enqueue(stream, [&] {
    wait_for(*sent.on_device, stream);
    wait_for(*received.on_device, stream);
    record(sent.on_device->begun, stream);
    record(received.on_device->begun, stream);
    copy_bytes(received.data, sent.data, sent.bytes, stream);
    record(sent.on_device->done, stream);
    record(received.on_device->done, stream);
  });
}

std::shared_ptr<void> CudaTransport::keep(Message& sent) {
  DeviceCall const& call = *sent.on_device;
  auto kept = std::make_shared<KeptMessage>(call);
  enqueue(call.stream, [&] {
    wait_for(call, call.stream);
    check(cudaMallocAsync(&kept->data, sent.bytes, call.stream), "cudaMallocAsync");
    record(call.begun, call.stream);
    copy_bytes(kept->data, sent.data, sent.bytes, call.stream);
    record(call.done, call.stream);
  });
  sent.data = kept->data;
  sent.on_device = &kept->call;
  return kept;
}

}  // namespace

DeviceCall CudaCommunicator::call_on(cudaStream_t stream) {
  return {.stream = stream,
          .ready = streams_.compute_event(),
          .after = nullptr,
          .begun = streams_.event(),
          .done = streams_.event()};
}

TimeSpan CudaCommunicator::settle(Calls::iterator call, TimeSpan const& time) {
  DeviceCall const ended = *call;
  calls_.erase(call);
  if (ended.stream == nullptr) {
    if (is_virtual_) return time;
    DeviceTimeline::Mark const now = streams_.mark();
    return {.marks = MarkSpan{now, now}};
  }
  streams_.compute_waits(ended.done);
  if (is_virtual_) return time;
  return {.marks = MarkSpan{streams_.mark_of(ended.begun), streams_.mark_of(ended.done)}};
}

Communicator::Ticket CudaCommunicator::start(Collective const& collective) {
  Collective own = collective;
  auto const call = calls_.emplace(calls_.end());
  if (!own.in_host_memory) *call = call_on(streams_.stream(groups_[own.group].stream));
  if (own.after) call->after = collectives_.at({own.after->group, own.after->ticket})->done;
  own.on_device = &*call;
  Ticket const ticket = inside_.start(own);
  collectives_.emplace(std::pair{own.group, ticket}, call);
  return ticket;
}

TimeSpan CudaCommunicator::finish(GroupId group, Ticket ticket) {
  TimeSpan const time = inside_.finish(group, ticket);
  return settle(collectives_.extract({group, ticket}).mapped(), time);
}

void CudaCommunicator::post(Message const& message) {
  Message own = message;
  bool const is_send = message.end == Transfer::End::send;
  auto const call =
      calls_.insert(calls_.end(), call_on(is_send ? streams_.send() : streams_.receive()));
  messages_[{message.end, message.number}] = call;
  own.on_device = &*call;
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
