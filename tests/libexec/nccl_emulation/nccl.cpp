// What NCCL's functions check, and what they begin.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/libexec/nccl_emulation/communicator.hpp"
#include "tests/libexec/nccl_emulation/failure.hpp"
#include "tests/libexec/nccl_emulation/meeting.hpp"
#include "tests/libexec/nccl_emulation/progress.hpp"

struct ncclComm : stagecraft::nccl_emulation::Communicator {
  using Communicator::Communicator;
  ncclComm_t* split_target = nullptr;  ///< of a split that is under way
};

namespace stagecraft::nccl_emulation {
namespace {

using emulation::Device;
using emulation::MemoryKind;

/// Those of the process that are neither destroyed nor aborted.
std::map<ncclComm_t, std::shared_ptr<ncclComm>>& comms() {
  static std::map<ncclComm_t, std::shared_ptr<ncclComm>> all;
  return all;
}

/// NCCL's, too, is the process's.
struct LastError {
  std::mutex mutex;
  std::string text;
};
LastError& last_error() {
  static LastError error;
  return error;
}

ncclComm& find(ncclComm_t handle) {
  auto const found = comms().find(handle);
  if (found == comms().end()) {
    throw Failure{ncclInvalidArgument, "no communicator, or it is destroyed or aborted"};
  }
  return *found->second;
}

ncclComm_t keep(std::shared_ptr<ncclComm> comm) {
  ncclComm_t const handle = comm.get();
  comms().emplace(handle, std::move(comm));
  return handle;
}

/// Runs the body of a function: turns what it throws into what the function returns.
template <typename Body>
ncclResult_t guarded(Body const& body) {
  return Device::get().configure([&](Device& device) {
    try {
      if (device.count < 1) throw Failure{ncclUnhandledCudaError, "no device is emulated"};
      return body(device);
    } catch (Failure const& failure) {
      remember(failure.what());
      return failure.code();
    } catch (emulation::Failure const& failure) {
      remember(failure.what());
      return ncclUnhandledCudaError;
    } catch (std::runtime_error const& failure) {
      remember(failure.what());
      return ncclSystemError;
    }
  });
}

/// What a call returns that has begun something: where communicators block, when it is over.
ncclResult_t await(Device& device, ncclComm& comm) {
  while (comm.place().is_blocking && comm.state() == ncclInProgress) device.pause();
  return comm.state();
}

bool is_blocking(ncclConfig_t const* config) {
  if (config == nullptr) return true;
  ncclConfig_t const wanted = NCCL_CONFIG_INITIALIZER;
  if (config->size != wanted.size || config->magic != wanted.magic) {
    throw Failure{ncclInvalidArgument, "a configuration that was not initialized"};
  }
  return config->blocking != 0;
}

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

/// Names a job's communicator; FNV-1a.
std::uint64_t name_of(ncclUniqueId const& id) {
  std::uint64_t name = 0xcbf29ce484222325U;
  for (char const letter : id.internal) {
    name = (name ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  }
  return name;
}

void require_no_group(char const* call) {
  if (group.depth > 0) throw Failure{ncclInvalidUsage, std::string{call} + ": in a group"};
}

}  // namespace

void remember(std::string const& why) {
  std::scoped_lock const lock{last_error().mutex};
  last_error().text = why;
}

}  // namespace stagecraft::nccl_emulation

using namespace stagecraft::nccl_emulation;

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return guarded([&](Device&) {
    *id = open_meeting();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRankConfig(
    ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  *comm = nullptr;
  return guarded([&](Device& device) {
    require_no_group("ncclCommInitRankConfig");
    if (ranks < 1 || rank < 0 || rank >= ranks) {
      throw Failure{ncclInvalidArgument,
                    "rank " + std::to_string(rank) + " of " + std::to_string(ranks)};
    }
    keep_streams_going();
    *comm = keep(std::make_shared<ncclComm>(
        join_meeting(id, ranks), Communicator::Place{.id = name_of(id),
                                                     .rank = rank,
                                                     .size = ranks,
                                                     .device = Device::current(),
                                                     .is_blocking = is_blocking(config)}));
    find(*comm).begin_arrival();
    return await(device, find(*comm));
  });
}

ncclResult_t ncclCommSplit(
    ncclComm_t handle, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  return guarded([&](Device& device) {
    require_no_group("ncclCommSplit");
    ncclComm& comm = find(handle);
    comm.require_ready();
    *made = nullptr;
    comm.split_target = color == NCCL_SPLIT_NOCOLOR ? nullptr : made;
    // Without a configuration, the parent's.
    bool const blocks = config == nullptr ? comm.place().is_blocking : is_blocking(config);
    comm.begin_split(color, key, blocks, [&comm](Communicator::Place const& place) {
      *std::exchange(comm.split_target, nullptr) =
          keep(std::make_shared<ncclComm>(comm.board(), place));
    });
    return await(device, comm);
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  return guarded([&](Device& device) {
    ncclComm& comm = find(handle);
    comm.require_ready();
    if (comm.is_finalized()) throw Failure{ncclInvalidArgument, "it is finalized already"};
    comm.begin_finalize();
    return await(device, comm);
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return guarded([&](Device& device) {
    ncclComm& comm = find(handle);
    if (!comm.is_finalized()) {
      comm.require_ready();
      comm.begin_finalize();
      while (comm.state() == ncclInProgress) device.pause();
    }
    ncclResult_t const state = comm.state();
    comms().erase(handle);
    return state;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return guarded([&](Device&) {
    ncclComm& comm = find(handle);
    comm.abort();
    // As NCCL's thread does that a split waits in: it fails, and hands out what it has.
    if (comm.split_target != nullptr) {
      auto child = std::make_shared<ncclComm>(comm.board(), Communicator::Place{});
      child->set_error(ncclInternalError);
      *comm.split_target = keep(std::move(child));
    }
    comms().erase(handle);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  return guarded([&](Device&) {
    *error = find(handle).state();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(ncclComm_t handle, int* count) {
  return guarded([&](Device&) {
    find(handle).require_ready();
    *count = find(handle).place().size;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommUserRank(ncclComm_t handle, int* rank) {
  return guarded([&](Device&) {
    find(handle).require_ready();
    *rank = find(handle).place().rank;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCuDevice(ncclComm_t handle, int* device) {
  return guarded([&](Device&) {
    find(handle).require_ready();
    *device = find(handle).place().device;
    return ncclSuccess;
  });
}

char const* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

char const* ncclGetLastError(ncclComm_t /*comm*/) {
  thread_local std::string text;
  std::scoped_lock const lock{last_error().mutex};
  text = last_error().text;
  return text.c_str();
}

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
