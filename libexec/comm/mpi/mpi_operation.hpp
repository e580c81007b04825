#pragma once

#include <string>

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

}  // namespace stagecraft
