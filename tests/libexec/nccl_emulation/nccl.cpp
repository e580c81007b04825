// Communicators: what NCCL's functions check, and what they begin.
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "tests/libexec/cuda_emulation/device.hpp"
#include "tests/libexec/nccl_emulation/board.hpp"
#include "tests/libexec/nccl_emulation/communicator.hpp"

namespace stagecraft::nccl_emulation {
namespace {

using emulation::Device;

constexpr std::chrono::milliseconds interval{1};
/// Few, so that most is still done when somebody waits, and in a random order.
constexpr std::size_t most_entries = 64;

class Progress {
 public:
  /// Before the device in the order of destruction.
  Progress() : device_{Device::get()}, thread_{[this] { keep_going(); }} {}
  ~Progress() {
    {
      std::scoped_lock const lock{mutex_};
      must_stop_ = true;
    }
    stop_.notify_all();
    thread_.join();
  }
  Progress(Progress const&) = delete;
  Progress(Progress&&) = delete;
  Progress& operator=(Progress const&) = delete;
  Progress& operator=(Progress&&) = delete;

 private:
  void keep_going() {
    std::unique_lock lock{mutex_};
    while (!stop_.wait_for(lock, interval, [&] { return must_stop_; })) {
      device_.call([](Device& device) {
        if (!device.schedule.awaits_arrivals()) return;
        device.schedule.run_at_most(static_cast<int>(device.order.below(most_entries)));
      });
    }
  }

  Device& device_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool must_stop_ = false;
  std::thread thread_;
};

/// From now on, streams go on by themselves now and then while any of them waits for another rank,
/// or will: a device works while its host does something else, and the other ranks count on it.
void keep_streams_going() { static Progress const progress; }

using emulation::Device;

bool is_blocking(ncclConfig_t const* config) {
  if (config == nullptr) return true;
  ncclConfig_t const wanted = NCCL_CONFIG_INITIALIZER;
  if (config->size != wanted.size || config->magic != wanted.magic) {
    throw Failure{ncclInvalidArgument, "a configuration that was not initialized"};
  }
  return config->blocking != 0;
}

/// Names a job's communicator; FNV-1a.
std::uint64_t name_of(ncclUniqueId const& id) {
  std::uint64_t name = 0xcbf29ce484222325U;
  for (char const letter : id.internal) {
    name = (name ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  }
  return name;
}

}  // namespace
}  // namespace stagecraft::nccl_emulation

using namespace stagecraft::nccl_emulation;

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return guarded([&](Device&) {
    *id = new_id();
    if (std::getenv("NCCL_COMM_ID") == nullptr) open_meeting(*id);
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
    if (rank == 0 && std::getenv("NCCL_COMM_ID") != nullptr) open_meeting(id);
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
    forget(handle);
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
    forget(handle);
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
