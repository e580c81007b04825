#pragma once

#include <nccl.h>

#include <chrono>
#include <memory>
#include <optional>

#include "libexec/comm/cuda/nccl_check.hpp"

namespace stagecraft {

/// One of NCCL's communicators, made so that its calls do not block: a peer that never comes is
/// noticed by the time that a call takes.
class NcclComm {
 public:
  using Duration = std::chrono::seconds;

  /// Called by all of `size` ranks. \throws CommunicationError
  NcclComm(ncclUniqueId const& id, int size, int rank, Duration timeout);
  /// Called by all ranks of the communicator. `color`: who belongs together; nothing for a rank
  /// that does not take part, which gets nothing. `key`: orders the ranks of the new one.
  /// \throws CommunicationError
  std::optional<NcclComm> split(std::optional<int> color, int key);
  /// Aborts what still runs, unless it has been closed.
  ~NcclComm();
  NcclComm(NcclComm const&) = delete;
  NcclComm(NcclComm&& other) noexcept;
  NcclComm& operator=(NcclComm const&) = delete;
  NcclComm& operator=(NcclComm&&) = delete;

  ncclComm_t get() const { return comm_; }

  /// Makes calls as one, and returns when all of them are on their streams.
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

  /// Waits until what was called last is on its stream. \throws CommunicationError
  void wait(char const* what) const;
  /// What went wrong since, if anything.
  std::optional<ncclResult_t> error() const;

  /// Flushes; all ranks do. After begin_close() of all communicators, so that none waits for a rank
  /// that waits in another.
  void begin_close();
  void close();

 private:
  NcclComm(ncclComm_t comm, Duration timeout) : comm_{comm}, timeout_{timeout} {}

  ncclComm_t comm_ = nullptr;
  /// What a split is to make: NCCL's thread writes there, also when a split fails or is aborted, so
  /// it is no variable of a function that may be left before.
  std::unique_ptr<ncclComm_t> splitting_;
  Duration timeout_;
};

}  // namespace stagecraft
