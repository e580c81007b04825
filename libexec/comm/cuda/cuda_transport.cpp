#include "libexec/comm/cuda/cuda_transport.hpp"

#include <cuda_runtime_api.h>

#include <stdexcept>

#include "libexec/comm/collective_reduction.hpp"
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

void copy_elements(void* target,
                   void const* source,
                   std::int64_t elements,
                   ElementType type,
                   cudaStream_t stream) {
  copy_bytes(target, source, static_cast<std::size_t>(elements * element_size(type)), stream);
}

/// Elements [begin, end) of the whole, reduced in rank order into `target`.
void reduce(std::vector<Collective> const& calls,
            std::int64_t begin,
            std::int64_t end,
            void* target,
            cudaStream_t stream) {
  Collective const& first = calls.front();
  std::vector<void const*> sources;
  sources.reserve(calls.size());
  for (Collective const& call : calls) {
    sources.push_back(element_at(call.source, begin, first.type));
  }
  reduce_on_device(first.reduction, first.type, sources, target, end - begin, stream);
}

void move(std::vector<Collective> const& calls, cudaStream_t stream) {
  Collective const& first = calls.front();
  auto const members = static_cast<std::int64_t>(calls.size());
  switch (first.kind) {
    case OpKind::all_reduce:
      reduce(calls, 0, first.elements, first.target, stream);
      for (Collective const& call : calls) {
        copy_elements(call.target, first.target, first.elements, first.type, stream);
      }
      return;
    case OpKind::reduce_scatter:
      for (std::int64_t i = 0; i < members; ++i) {
        Collective const& call = calls[static_cast<std::size_t>(i)];
        reduce(calls, call.piece_begin(i), call.piece_begin(i + 1), call.target, stream);
      }
      return;
    case OpKind::all_gather:
      for (std::int64_t i = 0; i < members; ++i) {
        std::int64_t const begin = first.piece_begin(i);
        std::int64_t const count = first.piece_begin(i + 1) - begin;
        void const* const piece = calls[static_cast<std::size_t>(i)].source;
        for (Collective const& call : calls) {
          copy_elements(element_at(call.target, begin, first.type), piece, count, first.type,
                        stream);
        }
      }
      return;
    default:
      throw std::logic_error{"not a collective"};
  }
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
  // On a stream of the first member: those of one group then run in order.
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
  // The sender's part is over: the copy that follows is the stream's and the receiver's matter.
  sent.cuda.begun = nullptr;
  sent.cuda.done = nullptr;
  return {kept, [stream](void* memory) { cudaFreeAsync(memory, stream); }};
}

}  // namespace stagecraft
