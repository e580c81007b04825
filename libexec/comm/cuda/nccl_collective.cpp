#include <stdexcept>
#include <string>

#include "libexec/comm/collectives.hpp"
#include "libexec/comm/cuda/device_call.hpp"
#include "libexec/comm/cuda/nccl_comm.hpp"

namespace stagecraft {
namespace {

ncclDataType_t type_of(ElementType type) {
  switch (type) {
    case ElementType::f16:
      return ncclFloat16;
    case ElementType::bf16:
      return ncclBfloat16;
    case ElementType::f32:
      return ncclFloat32;
    case ElementType::f64:
      return ncclFloat64;
    case ElementType::i64:
      return ncclInt64;
    case ElementType::u8:
      return ncclUint8;
    case ElementType::i32:
      return ncclInt32;
    case ElementType::f8_e4m3:
    case ElementType::f8_e5m2:
    case ElementType::f4_e2m1:
      break;
  }
  throw std::logic_error{"NCCL has no such element type"};
}

/// A collective and the addresses of its pieces.
struct Call {
  NcclComm& comm;
  int member;
  int members;
  Collective const& collective;

  ncclDataType_t type() const { return type_of(collective.type); }
  ncclRedOp_t reduction() const {
    return collective.reduction == Reduction::maximum ? ncclMax : ncclSum;
  }
  std::size_t count(int i) const {
    return static_cast<std::size_t>(collective.piece_begin(i + 1) - collective.piece_begin(i));
  }
  void* target(int i) const {
    return element_at(collective.target, collective.piece_begin(i), collective.type);
  }
  void const* source(int i) const {
    return element_at(collective.source, collective.piece_begin(i), collective.type);
  }
  bool has_equal_pieces() const {
    return !collective.has_uneven_pieces() && collective.origin == 0 &&
           collective.piece * members == collective.elements;
  }
};

void all_gather(Call const& call) {
  Collective const& own = call.collective;
  cudaStream_t const stream = own.on_device->stream;
  if (call.has_equal_pieces()) {
    check(
        ncclAllGather(own.source, own.target, call.count(0), call.type(), call.comm.get(), stream),
        "ncclAllGather");
    return;
  }
  for (int i = 0; i < call.members; ++i) {
    if (call.count(i) == 0) continue;
    void const* const source = i == call.member ? own.source : call.target(i);
    check(ncclBroadcast(source, call.target(i), call.count(i), call.type(), i, call.comm.get(),
                        stream),
          "ncclBroadcast");
  }
}

void reduce_scatter(Call const& call) {
  Collective const& own = call.collective;
  cudaStream_t const stream = own.on_device->stream;
  if (call.has_equal_pieces()) {
    check(ncclReduceScatter(own.source, own.target, call.count(0), call.type(), call.reduction(),
                            call.comm.get(), stream),
          "ncclReduceScatter");
    return;
  }
  for (int i = 0; i < call.members; ++i) {
    if (call.count(i) == 0) continue;
    void* const target = i == call.member ? own.target : nullptr;
    check(ncclReduce(call.source(i), target, call.count(i), call.type(), call.reduction(), i,
                     call.comm.get(), stream),
          "ncclReduce");
  }
}

/// A kind that only moves elements, as messages between the members.
void exchange(Call const& call) {
  Collective const& own = call.collective;
  cudaStream_t const stream = own.on_device->stream;
  for (int i = 0; i < call.members; ++i) {
    auto const sent = sent_part(own, call.member, i, call.members);
    if (sent && sent->elements > 0) {
      check(ncclSend(element_at(own.source, sent->begin, own.type),
                     static_cast<std::size_t>(sent->elements), call.type(), i, call.comm.get(),
                     stream),
            "ncclSend");
    }
    auto const received = received_part(own, call.member, i, call.members);
    if (received && received->elements > 0) {
      check(ncclRecv(element_at(own.target, received->begin, own.type),
                     static_cast<std::size_t>(received->elements), call.type(), i, call.comm.get(),
                     stream),
            "ncclRecv");
    }
  }
}

}  // namespace

void enqueue_collective(NcclComm& comm, int member, int members, Collective const& collective) {
  Call const call{comm, member, members, collective};
  if (collective.elements == 0 && !collective.has_uneven_pieces()) return;
  switch (collective.kind) {
    case OpKind::all_reduce:
      return comm.group("ncclAllReduce", [&] {
        check(ncclAllReduce(collective.source, collective.target,
                            static_cast<std::size_t>(collective.elements), call.type(),
                            call.reduction(), comm.get(), collective.on_device->stream),
              "ncclAllReduce");
      });
    case OpKind::all_gather:
      return comm.group("all-gather", [&] { all_gather(call); });
    case OpKind::reduce_scatter:
      return comm.group("reduce-scatter", [&] { reduce_scatter(call); });
    default: {
      std::string const name{name_of(collective.kind)};
      return comm.group(name.c_str(), [&] { exchange(call); });
    }
  }
}

}  // namespace stagecraft
