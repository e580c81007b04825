#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace stagecraft {

class MpiProgress;

/// What a process says that fails.
struct LastWords {
  int exit_code = 1;
  std::string reason;  ///< lines, as they are printed
};

/// MPI in this process, from its start to its end; one a process, as MPI has it.
///
/// A program that was built without MPI has it too, and refuses to make one.
class MpiSession {
 public:
  using Describe = std::function<LastWords(std::exception_ptr const&)>;
  /// `describe` says what becomes of an error; it is called by fail() only.
  /// \throws CommunicationError  without MPI, and what MPI says when it cannot start.
  explicit MpiSession(Describe describe);
  /// Waits for all processes; does not while an exception is on its way, and then the process must
  /// end, so that whoever started the job ends the others.
  ~MpiSession();
  MpiSession(MpiSession const&) = delete;
  MpiSession(MpiSession&&) = delete;
  MpiSession& operator=(MpiSession const&) = delete;
  MpiSession& operator=(MpiSession&&) = delete;

  int rank() const;
  int size() const;  ///< processes of the job

  /// Ends all processes of the job. Rank 0 writes the last words of the first process that fails to
  /// standard error; their exit code becomes that of mpirun.
  [[noreturn]] void fail(std::exception_ptr const& error);

  /// What each process has, by rank; on rank 0 only, nothing elsewhere. Called by all.
  /// \throws CommunicationError
  std::vector<std::vector<std::int64_t>> gather(std::vector<std::int64_t> const& numbers);

  /// What to add to this process's steady clock to have that of rank 0; exactly 0 on its machine,
  /// else within half of a message's way there and back. Called by all.
  /// \throws CommunicationError
  std::chrono::nanoseconds clock_offset();

  /// For communicators.
  MpiProgress& progress() { return *progress_; }

 private:
  Describe describe_;
  std::unique_ptr<MpiProgress> progress_;
};

}  // namespace stagecraft
