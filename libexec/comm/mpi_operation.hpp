#pragma once

#include <string>

#include "libexec/comm/communicator.hpp"

namespace stagecraft {

/// Something that the thread which owns MPI carries on until it is done.
class MpiOperation {
 public:
  enum class Progress { none, some, done };

  virtual ~MpiOperation() = default;
  /// Goes as far as it can without waiting. Called by the thread that owns MPI, never again after
  /// `done`. \throws CommunicationError, std::logic_error
  virtual Progress advance() = 0;
  /// What it is for whoever waits for it: "all_reduce mlp.output.forward with ranks 0, 2".
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
