#include "tests/libexec/nccl_emulation/handles.hpp"

#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace stagecraft::nccl_emulation {
namespace {

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

}  // namespace

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

void forget(ncclComm_t handle) { comms().erase(handle); }

ncclResult_t await(emulation::Device& device, ncclComm& comm) {
  while (comm.place().is_blocking && comm.state() == ncclInProgress) device.pause();
  return comm.state();
}

void remember(std::string const& why) {
  std::scoped_lock const lock{last_error().mutex};
  last_error().text = why;
}

}  // namespace stagecraft::nccl_emulation

using namespace stagecraft::nccl_emulation;

char const* ncclGetLastError(ncclComm_t /*comm*/) {
  thread_local std::string text;
  std::scoped_lock const lock{last_error().mutex};
  text = last_error().text;
  return text.c_str();
}
