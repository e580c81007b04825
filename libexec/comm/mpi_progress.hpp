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

#include "libexec/comm/mpi_operation.hpp"

namespace stagecraft {

/// The thread that owns MPI: the only one of the process that calls it, from MPI_Init_thread to
/// MPI_Finalize.
///
/// It carries all operations forward while the rank's own thread computes, so that what a plan
/// overlaps does overlap: Open MPI moves the later parts of a message only inside MPI calls. One
/// thread that tests nonblocking operations needs no more than MPI_THREAD_FUNNELED; the other way,
/// MPI_THREAD_MULTIPLE and calls that block, would need a thread for each group.
/// A process that is told to end (SIGTERM: mpirun and Slurm do it where another process has died)
/// says what it waited for.
///
/// While nothing moves it sleeps between two looks, because ranks may share cores.
class MpiProgress {
 public:
  /// \throws CommunicationError
  MpiProgress();
  /// Finalizes MPI, except while an exception is on its way: then the process must end.
  ~MpiProgress();
  MpiProgress(MpiProgress const&) = delete;
  MpiProgress(MpiProgress&&) = delete;
  MpiProgress& operator=(MpiProgress const&) = delete;
  MpiProgress& operator=(MpiProgress&&) = delete;

  void add(std::shared_ptr<MpiOperation> operation);
  /// Waits until an operation is done. \throws whatever ended any operation of this process
  void wait(MpiOperation const& operation);

  /// Waits until no operation is under way, then runs `work`, which may wait for other processes,
  /// on the thread that owns MPI. \throws what `work` throws
  void run(std::function<void()> const& work);

  /// Tells every process to end: rank 0 says why on standard error, once, however many fail.
  [[noreturn]] void fail(int exit_code, std::string const& reason);

  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  void own_mpi();
  void start_mpi();
  void loop();
  /// Whether anything moved.
  bool advance_all();
  /// After SIGTERM: says what the rank's thread waits for, and ends the process.
  [[noreturn]] void end_as_told();

  int rank_ = 0;
  int size_ = 1;
  std::mutex mutex_;
  std::condition_variable wake_;     ///< of the thread that owns MPI
  std::condition_variable changed_;  ///< of the rank's thread
  std::vector<std::shared_ptr<MpiOperation>> incoming_;
  std::vector<std::shared_ptr<MpiOperation>> active_;  ///< the owning thread's
  /// That failed: MPI may still write into what they own.
  std::vector<std::shared_ptr<MpiOperation>> abandoned_;
  std::unique_ptr<MpiOperation> listener_;  ///< for failures of other processes
  MpiOperation const* awaited_ = nullptr;   ///< what the rank's thread waits for
  std::size_t unfinished_ = 0;              ///< incoming and active
  std::exception_ptr failure_;              ///< of an operation
  bool is_started_ = false;
  bool must_stop_ = false;
  bool is_abandoned_ = false;
  std::thread thread_;
};

}  // namespace stagecraft
