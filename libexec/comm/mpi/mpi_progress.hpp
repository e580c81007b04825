#pragma once

#include <mpi.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "libexec/comm/mpi/mpi_operation.hpp"

namespace stagecraft {

/// The thread that owns MPI: the only thread of the process that calls MPI, from MPI_Init_thread to
/// MPI_Finalize.
///
/// It advances all operations while the rank's thread computes, so that what a plan overlaps does
/// overlap: Open MPI moves the later parts of a message only inside MPI calls. One thread that
/// tests nonblocking operations needs only MPI_THREAD_FUNNELED; MPI_THREAD_MULTIPLE with blocking
/// calls would need one thread per group. A process that receives SIGTERM, as mpirun and Slurm send
/// it when another process has died, reports what it was waiting for.
///
/// The thread sleeps between polls if nothing advances, because ranks may share cores.
class MpiProgress {
 public:
  /// \throws CommunicationError
  MpiProgress();
  /// Finalizes MPI, unless it runs because of an exception; then the process has to end.
  ~MpiProgress();
  MpiProgress(MpiProgress const&) = delete;
  MpiProgress(MpiProgress&&) = delete;
  MpiProgress& operator=(MpiProgress const&) = delete;
  MpiProgress& operator=(MpiProgress&&) = delete;

  void add(std::shared_ptr<MpiOperation> operation);
  /// Waits until an operation is done. \throws the exception that ended any operation of the
  /// process
  void wait(MpiOperation const& operation);

  /// Waits until no operation is in flight, then runs `work`, which may wait for other processes,
  /// on the thread that owns MPI. \throws what `work` throws
  void run(std::function<void()> const& work);

  /// Ends all processes. Rank 0 prints the reason on standard error, once, however many fail.
  [[noreturn]] void fail(int exit_code, std::string const& reason);

  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  void own_mpi();
  void start_mpi();
  void loop();
  /// Returns whether any operation advanced.
  bool advance_all();
  /// After SIGTERM: reports what the rank's thread waits for, and ends the process.
  [[noreturn]] void end_as_told();

  int rank_ = 0;
  int size_ = 1;
  std::mutex mutex_;
  std::condition_variable wake_;     ///< wakes the thread that owns MPI
  std::condition_variable changed_;  ///< wakes the rank's thread
  std::vector<std::shared_ptr<MpiOperation>> incoming_;
  std::vector<std::shared_ptr<MpiOperation>> active_;  ///< used by the thread that owns MPI only
  /// Failed operations, kept alive because MPI may still write into their buffers.
  std::vector<std::shared_ptr<MpiOperation>> abandoned_;
  std::unique_ptr<MpiOperation> listener_;  ///< for failures of other processes
  MpiOperation const* awaited_ = nullptr;   ///< the rank's thread waits for it
  std::size_t unfinished_ = 0;              ///< incoming and active
  std::exception_ptr failure_;              ///< of an operation
  bool is_started_ = false;
  bool must_stop_ = false;
  bool is_abandoned_ = false;
  std::thread thread_;
};

}  // namespace stagecraft
