#pragma once

#include <nccl.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "libexec/comm/communicator.hpp"

namespace stagecraft {

/// \throws CommunicationError  with NCCL's own text, unless the call has succeeded or is in progress
/// (on a nonblocking communicator).
inline void check(ncclResult_t status, char const* call) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  char const* const last = ncclGetLastError(nullptr);
  std::string const more = last == nullptr || *last == '\0' ? "" : std::string{": "} + last;
  throw CommunicationError{std::string{"NCCL: "} + call + ": " + ncclGetErrorString(status) + more};
}

/// A nonblocking NCCL communicator, so that a peer that never arrives is noticed by a timeout.
class NcclComm {
 public:
  using Duration = std::chrono::seconds;

  /// All `size` ranks call it. \throws CommunicationError
  NcclComm(ncclUniqueId const& id, int size, int rank, Duration timeout);
  /// All ranks of the communicator call it. Ranks with the same `color` form a new one, ordered by
  /// `key`; a rank without color gets nullopt.
  /// \throws CommunicationError
  std::optional<NcclComm> split(std::optional<int> color, int key);
  /// Aborts the calls that still run, unless the communicator has been closed.
  ~NcclComm();
  NcclComm(NcclComm const&) = delete;
  NcclComm(NcclComm&& other) noexcept;
  NcclComm& operator=(NcclComm const&) = delete;
  NcclComm& operator=(NcclComm&&) = delete;

  ncclComm_t get() const { return comm_; }

  /// Groups calls into one, and returns when all of them are enqueued on their streams.
  /// \throws CommunicationError
  template <typename Calls>
  void group(char const* what, Calls calls) {
    check(ncclGroupStart(), "ncclGroupStart");
    try {
      calls();
    } catch (...) {
      ncclGroupEnd();
      throw;
    }
    check(ncclGroupEnd(), what);
    wait(what);
  }

  /// Waits until the last call is enqueued on its stream. \throws CommunicationError
  void wait(char const* what) const;
  /// The asynchronous error that NCCL has reported since, if any.
  std::optional<ncclResult_t> error() const;

  /// Starts to flush; all ranks call it. begin_close() is called for all communicators before any
  /// is closed, so that none waits for a rank that waits in another.
  void begin_close();
  void close();

 private:
  NcclComm(ncclComm_t comm, Duration timeout) : comm_{comm}, timeout_{timeout} {}

  ncclComm_t comm_ = nullptr;
  /// The result of a split. It is a member because NCCL's thread writes it even if the split fails
  /// or is aborted, when a local variable might not exist any more.
  std::unique_ptr<ncclComm_t> splitting_;
  Duration timeout_;
};

/// Enqueues a collective on the stream of its DeviceCall. `member` is this rank's index in the
/// communicator, which has `members` ranks.
///
/// NCCL gathers and scatters pieces of equal size. If the last piece is shorter or empty, the
/// collective becomes one group call with a broadcast or a reduction per piece.
/// \throws CommunicationError
/// \throws std::logic_error  if the op is not a collective.
void enqueue_collective(NcclComm& comm, int member, int members, Collective const& collective);

}  // namespace stagecraft
