// Groups of calls: what they check, and how they are launched.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/libexec/nccl_emulation/communicator.hpp"

namespace stagecraft::nccl_emulation {
namespace {

using emulation::Device;
using emulation::MemoryKind;

struct Group {
  struct Entry {
    ncclComm_t comm;
    cudaStream_t stream;
    Operation operation;
  };
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Entry> entries;
};
thread_local Group group;

/// Of a device's memory, in one piece.
void require_buffer(Device const& device, void const* data, std::size_t bytes, char const* which) {
  if (device.memory.contains(data, bytes, MemoryKind::device)) return;
  throw Failure{ncclInvalidArgument,
                std::string{which} + ": no device memory of " + std::to_string(bytes) + " bytes"};
}

/// Buffers are apart, or as in place has them.
void require_apart(Operation const& operation, Communicator::Place const& place) {
  using Kind = Call::Kind;
  Call const& call = operation.call;
  std::size_t const element = element_bytes(call.type);
  auto const* const source = static_cast<std::byte const*>(operation.source);
  auto const* const target = static_cast<std::byte const*>(operation.target);
  std::size_t const read = source_elements(call, place.size) * element;
  std::size_t const written = target_elements(call, place.size) * element;
  if (source + read <= target || target + written <= source) return;
  auto const own =
      static_cast<std::ptrdiff_t>(static_cast<std::size_t>(place.rank) * call.count * element);
  bool const is_in_place = call.kind == Kind::all_gather       ? source == target + own
                           : call.kind == Kind::reduce_scatter ? target == source + own
                                                               : source == target;
  if (!is_in_place) throw Failure{ncclInvalidUsage, to_text(call) + ": buffers that overlap"};
}

void require_buffers(Device const& device,
                     Operation const& operation,
                     Communicator::Place const& place) {
  using Kind = Call::Kind;
  Call const& call = operation.call;
  std::size_t const element = element_bytes(call.type);
  bool const is_root = call.root == place.rank;
  bool const reads = call.kind != Kind::receive && (call.kind != Kind::broadcast || is_root);
  bool const writes = call.kind != Kind::send && (call.kind != Kind::reduce || is_root);
  if (reads) {
    require_buffer(device, operation.source, source_elements(call, place.size) * element, "source");
  }
  if (writes) {
    require_buffer(device, operation.target, target_elements(call, place.size) * element, "target");
  }
  if (reads && writes) require_apart(operation, place);
}

void add_to_group(Device& device, Group::Entry const& entry) {
  ncclComm& comm = find(entry.comm);
  Call const& call = entry.operation.call;
  Communicator::Place const& place = comm.place();
  try {
    comm.require_ready();
    if (!is_known(call.type) || !is_known(call.reduction)) {
      throw Failure{ncclInvalidArgument, "a type or a reduction that is not emulated"};
    }
    if (call.root < 0 || call.root >= place.size) {
      throw Failure{ncclInvalidArgument, to_text(call) + ", of " + std::to_string(place.size)};
    }
    if (device.broken) throw emulation::Failure{*device.broken};
    if (device.schedule.stream(entry.stream).device != place.device) {
      throw Failure{ncclInvalidUsage, "a stream of another device"};
    }
    if (call.count == 0 && !call.is_message()) return;  // NCCL discards it
    require_buffers(device, entry.operation, place);
  } catch (Failure const& failure) {
    if (!place.is_blocking) comm.set_error(failure.code());
    throw;
  }
  group.entries.push_back(entry);
}

ncclResult_t launch_group(Device& device) {
  auto const entries = std::exchange(group.entries, {});
  std::vector<ncclComm_t> launched;
  for (Group::Entry const& first : entries) {
    if (std::find(launched.begin(), launched.end(), first.comm) != launched.end()) continue;
    launched.push_back(first.comm);
    std::vector<Operation> operations;
    for (Group::Entry const& entry : entries) {
      if (entry.comm != first.comm) continue;
      if (entry.stream != first.stream) {
        throw Failure{ncclInvalidUsage, "a group on several streams is not emulated"};
      }
      operations.push_back(entry.operation);
    }
    find(first.comm)
        .begin_launch(device, std::move(operations), device.schedule.stream(first.stream));
  }
  ncclResult_t result = ncclSuccess;
  for (ncclComm_t const comm : launched) {
    ncclResult_t const state = await(device, find(comm));
    if (result == ncclSuccess || result == ncclInProgress) result = std::max(result, state);
  }
  return result;
}

ncclResult_t end_group() {
  return guarded([](Device& device) {
    if (group.depth == 0) throw Failure{ncclInvalidUsage, "a group ends that has not begun"};
    if (--group.depth > 0) return ncclSuccess;
    ncclResult_t const error = std::exchange(group.error, ncclSuccess);
    if (error == ncclSuccess) return launch_group(device);
    group.entries.clear();
    return error;
  });
}

ncclResult_t enqueue(
    ncclComm_t comm, cudaStream_t stream, Call const& call, void const* source, void* target) {
  ++group.depth;
  ncclResult_t const added = guarded([&](Device& device) {
    add_to_group(device, {comm, stream, {.call = call, .source = source, .target = target}});
    return ncclSuccess;
  });
  if (added != ncclSuccess) group.error = added;
  if (group.depth > 1) {
    --group.depth;
    return added;
  }
  return end_group();
}

}  // namespace

void require_no_group(char const* call) {
  if (group.depth > 0) throw Failure{ncclInvalidUsage, std::string{call} + ": in a group"};
}

}  // namespace stagecraft::nccl_emulation

using namespace stagecraft::nccl_emulation;

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() { return end_group(); }

ncclResult_t ncclAllReduce(void const* source,
                           void* target,
                           std::size_t count,
                           ncclDataType_t type,
                           ncclRedOp_t reduction,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  Call const call{Call::Kind::all_reduce, type, reduction, 0, count};
  return enqueue(comm, stream, call, source, target);
}

ncclResult_t ncclReduce(void const* source,
                        void* target,
                        std::size_t count,
                        ncclDataType_t type,
                        ncclRedOp_t reduction,
                        int root,
                        ncclComm_t comm,
                        cudaStream_t stream) {
  Call const call{Call::Kind::reduce, type, reduction, root, count};
  return enqueue(comm, stream, call, source, target);
}

ncclResult_t ncclBroadcast(void const* source,
                           void* target,
                           std::size_t count,
                           ncclDataType_t type,
                           int root,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  Call const call{Call::Kind::broadcast, type, ncclSum, root, count};
  return enqueue(comm, stream, call, source, target);
}

ncclResult_t ncclAllGather(void const* source,
                           void* target,
                           std::size_t count,
                           ncclDataType_t type,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  Call const call{Call::Kind::all_gather, type, ncclSum, 0, count};
  return enqueue(comm, stream, call, source, target);
}

ncclResult_t ncclReduceScatter(void const* source,
                               void* target,
                               std::size_t count,
                               ncclDataType_t type,
                               ncclRedOp_t reduction,
                               ncclComm_t comm,
                               cudaStream_t stream) {
  Call const call{Call::Kind::reduce_scatter, type, reduction, 0, count};
  return enqueue(comm, stream, call, source, target);
}

ncclResult_t ncclSend(void const* source,
                      std::size_t count,
                      ncclDataType_t type,
                      int peer,
                      ncclComm_t comm,
                      cudaStream_t stream) {
  Call const call{Call::Kind::send, type, ncclSum, peer, count};
  return enqueue(comm, stream, call, source, nullptr);
}

ncclResult_t ncclRecv(void* target,
                      std::size_t count,
                      ncclDataType_t type,
                      int peer,
                      ncclComm_t comm,
                      cudaStream_t stream) {
  Call const call{Call::Kind::receive, type, ncclSum, peer, count};
  return enqueue(comm, stream, call, nullptr, target);
}
