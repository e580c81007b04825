#include "libexec/comm/cuda/nccl_comm.hpp"

#include <thread>
#include <utility>

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

/// The number of polls before the thread sleeps between polls; most calls are enqueued at once.
constexpr int eager_looks = 1000;
constexpr auto pause = 100us;

ncclConfig_t nonblocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  // Communicators that share resources would run one after the other.
  config.splitShare = 0;
  return config;
}

}  // namespace

NcclComm::NcclComm(ncclUniqueId const& id, int size, int rank, Duration timeout)
    : timeout_{timeout} {
  ncclConfig_t config = nonblocking();
  check(ncclCommInitRankConfig(&comm_, size, id, rank, &config), "ncclCommInitRankConfig");
  try {
    wait("ncclCommInitRankConfig");
  } catch (...) {
    ncclCommAbort(comm_);
    throw;
  }
}

NcclComm::NcclComm(NcclComm&& other) noexcept
    : comm_{std::exchange(other.comm_, nullptr)},
      splitting_{std::move(other.splitting_)},
      timeout_{other.timeout_} {}

NcclComm::~NcclComm() {
  if (comm_ != nullptr) ncclCommAbort(comm_);
  if (splitting_ != nullptr && *splitting_ != nullptr) ncclCommAbort(*splitting_);
}

std::optional<NcclComm> NcclComm::split(std::optional<int> color, int key) {
  ncclConfig_t config = nonblocking();
  splitting_ = std::make_unique<ncclComm_t>(nullptr);
  check(ncclCommSplit(comm_, color.value_or(NCCL_SPLIT_NOCOLOR), key, splitting_.get(), &config),
        "ncclCommSplit");
  // The new one is ready when the old one is (github.com/NVIDIA/nccl/issues/1472).
  wait("ncclCommSplit");
  ncclComm_t const made = *std::exchange(splitting_, nullptr);
  if (made == nullptr) return std::nullopt;
  NcclComm comm{made, timeout_};
  comm.wait("ncclCommSplit");
  return comm;
}

void NcclComm::wait(char const* what) const {
  auto const deadline = std::chrono::steady_clock::now() + timeout_;
  for (int looks = 0;; ++looks) {
    ncclResult_t state = ncclInProgress;
    check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
    if (state != ncclInProgress) return check(state, what);
    if (looks < eager_looks) continue;
    if (std::chrono::steady_clock::now() > deadline) {
      throw CommunicationError{std::string{"NCCL: "} + what + ": other ranks did not come within " +
                               std::to_string(timeout_.count()) + " s"};
    }
    std::this_thread::sleep_for(pause);
  }
}

std::optional<ncclResult_t> NcclComm::error() const {
  ncclResult_t state = ncclSuccess;
  ncclResult_t const status = ncclCommGetAsyncError(comm_, &state);
  if (status != ncclSuccess) return status;
  if (state == ncclSuccess || state == ncclInProgress) return std::nullopt;
  return state;
}

void NcclComm::begin_close() { check(ncclCommFinalize(comm_), "ncclCommFinalize"); }

void NcclComm::close() {
  wait("ncclCommFinalize");
  check(ncclCommDestroy(std::exchange(comm_, nullptr)), "ncclCommDestroy");
}

}  // namespace stagecraft
