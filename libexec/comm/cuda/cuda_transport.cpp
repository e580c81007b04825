#include "libexec/comm/cuda/cuda_transport.hpp"

#include <cuda_runtime_api.h>

#include <span>

#include "libexec/comm/collective_in_memory.hpp"
#include "libexec/kernels/cuda/cuda_check.hpp"
#include "libexec/kernels/cuda/reduce_members.hpp"

namespace stagecraft {
namespace {

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

}  // namespace

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

}  // namespace stagecraft
