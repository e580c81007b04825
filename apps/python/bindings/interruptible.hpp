#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>

#include "libsim/host/fork_gate.hpp"
#include "libsim/host/interruption.hpp"

namespace stagecraft::python {

/// While it lives, its thread is inside a call and without the interpreter's lock.
struct Unlocked {
  nanobind::gil_scoped_release release;
  InsideCall inside;
};

/// How far a piece of work has come. One thread works and reports; the one that waits listens.
/// `mutex_` guards all but `is_unwanted_`; the last report is kept until it is read or replaced.
class Work {
 public:
  /// Notes that `share` (0 to 1) of the part `what` is done.
  /// \throws Interrupted  if the caller wants no more of it. Only run_interruptibly() catches that.
  void report(char const* what, double share);

 private:
  friend void run_interruptibly(nanobind::object const& progress,
                                std::function<void(Work&)> const& work);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;
  double share_ = 0;
  bool is_over_ = false;
  std::atomic<bool> is_unwanted_ = false;
  std::exception_ptr failure_;
};

/// Runs `work` in a thread of its own without the interpreter's lock. Meanwhile the calling thread
/// answers signals, so that Ctrl-C ends the work when it next reports or calls
/// throw_if_interrupted(), and calls `progress` (unless it is None) with the part and the share
/// that are done, several times a second. Throws what `work`, a signal's handler or `progress`
/// throws.
void run_interruptibly(nanobind::object const& progress, std::function<void(Work&)> const& work);

}  // namespace stagecraft::python
