#include "tests/libexec/nccl_emulation/call.hpp"

#include <stdexcept>

namespace stagecraft::nccl_emulation {
namespace {

using Kind = Call::Kind;

char const* name_of(Kind kind) {
  switch (kind) {
    case Kind::all_reduce:
      return "ncclAllReduce";
    case Kind::all_gather:
      return "ncclAllGather";
    case Kind::reduce_scatter:
      return "ncclReduceScatter";
    case Kind::broadcast:
      return "ncclBroadcast";
    case Kind::reduce:
      return "ncclReduce";
    case Kind::send:
      return "ncclSend";
    case Kind::receive:
      return "ncclRecv";
    case Kind::split:
      return "ncclCommSplit";
    case Kind::finalize:
      return "ncclCommFinalize";
  }
  return "?";
}

struct Type {
  char const* name;
  std::size_t bytes;
};

Type type_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return {"ncclUint8", 1};
    case ncclInt32:
      return {"ncclInt32", 4};
    case ncclInt64:
      return {"ncclInt64", 8};
    case ncclFloat16:
      return {"ncclFloat16", 2};
    case ncclFloat32:
      return {"ncclFloat32", 4};
    case ncclFloat64:
      return {"ncclFloat64", 8};
    case ncclBfloat16:
      return {"ncclBfloat16", 2};
  }
  return {"?", 0};
}

bool reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce_scatter || kind == Kind::reduce;
}

}  // namespace

std::string to_text(Call const& call) {
  std::string text = name_of(call.kind);
  if (call.kind == Kind::split || call.kind == Kind::finalize) return text;
  text += " of " + std::to_string(call.count) + " " + type_of(call.type).name;
  if (reduces(call.kind)) text += call.reduction == ncclMax ? " by ncclMax" : " by ncclSum";
  bool const comes = call.kind == Kind::broadcast || call.kind == Kind::receive;
  bool const goes = call.kind == Kind::reduce || call.kind == Kind::send;
  if (comes) text += " from rank " + std::to_string(call.root);
  if (goes) text += " to rank " + std::to_string(call.root);
  return text;
}

bool is_known(ncclDataType_t type) { return type_of(type).bytes > 0; }
bool is_known(ncclRedOp_t reduction) { return reduction == ncclSum || reduction == ncclMax; }
std::size_t element_bytes(ncclDataType_t type) { return type_of(type).bytes; }

std::size_t source_elements(Call const& call, int ranks) {
  bool const is_whole = call.kind == Kind::reduce_scatter;
  if (call.kind == Kind::receive) return 0;
  return is_whole ? call.count * static_cast<std::size_t>(ranks) : call.count;
}

std::size_t target_elements(Call const& call, int ranks) {
  bool const is_whole = call.kind == Kind::all_gather;
  if (call.kind == Kind::send) return 0;
  return is_whole ? call.count * static_cast<std::size_t>(ranks) : call.count;
}

}  // namespace stagecraft::nccl_emulation
