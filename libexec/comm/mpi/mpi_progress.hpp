#pragma once

#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "libexec/comm/communicator.hpp"

namespace stagecraft {

/// An operation that the thread that owns MPI advances until it is done.
class MpiOperation {
 public:
  enum class Progress { none, some, done };

  virtual ~MpiOperation() = default;
  /// Advances as far as possible without waiting. Called by the thread that owns MPI, until it
  /// returns `done`. \throws CommunicationError, std::logic_error
  virtual Progress advance() = 0;
  /// A description for errors: "all_reduce mlp.output.forward with ranks 0, 2".
  virtual std::string description() const = 0;
  /// When it ran. Pre: MpiProgress::wait() has returned.
  TimeSpan time() const { return time_; }

 protected:
  TimeSpan time_;

 private:
  friend class MpiProgress;
  bool is_done_ = false;  ///< guarded by the mutex of MpiProgress
};

/// \throws CommunicationError  with MPI's own text and the name of the calling function. (clang 14
/// lacks std::source_location.)
void check(int status, char const* caller = __builtin_FUNCTION());

/// On rank 0: waits for the error report of another process, prints it and ends the job.
class MpiFailureListener final : public MpiOperation {
 public:
  MpiFailureListener();
  /// Pre: MPI_Finalize has not been called.
  ~MpiFailureListener() override;
  MpiFailureListener(MpiFailureListener const&) = delete;
  MpiFailureListener(MpiFailureListener&&) = delete;
  MpiFailureListener& operator=(MpiFailureListener const&) = delete;
  MpiFailureListener& operator=(MpiFailureListener&&) = delete;
  Progress advance() override;
  std::string description() const override { return "a process that fails"; }

 private:
  std::vector<std::byte> text_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// The error report of this process. Rank 0 prints it and ends the job. Other ranks send it to rank
/// 0, and end the job themselves if rank 0 does not within two seconds: it may be blocked inside
/// MPI, or have died.
class MpiFailureReport final : public MpiOperation {
 public:
  MpiFailureReport(int rank, int exit_code, std::string const& reason);
  /// Always returns `none`; the process ends first.
  Progress advance() override;
  std::string description() const override { return "the end of all processes"; }

 private:
  int rank_;
  int exit_code_;
  std::string reason_;
  std::vector<std::byte> text_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool is_sent_ = false;
  std::chrono::steady_clock::time_point deadline_;
};

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
