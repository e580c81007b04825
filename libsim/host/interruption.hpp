#pragma once

#include <atomic>

namespace stagecraft {

/// Thrown out of work that its caller no longer wants. Not a std::exception, so that nothing takes
/// it for a failure of the work.
struct Interrupted {};

/// While it lives, throw_if_interrupted() throws in its thread, and in those that parallel_for()
/// starts from there, once `is_unwanted` is true. Programs that are ended by signals need none.
class Interruptible {
 public:
  /// `is_unwanted` must outlive it; null means that nothing interrupts.
  explicit Interruptible(std::atomic<bool> const* is_unwanted);
  Interruptible(Interruptible const&) = delete;
  Interruptible(Interruptible&&) = delete;
  Interruptible& operator=(Interruptible const&) = delete;
  Interruptible& operator=(Interruptible&&) = delete;
  ~Interruptible();

 private:
  std::atomic<bool> const* before_;
};

/// What interrupts this thread; null if nothing does.
std::atomic<bool> const* interruption();

/// Called now and then by work that may take long; lets forks pass, too.
/// \throws Interrupted  if it is no longer wanted.
void throw_if_interrupted();

}  // namespace stagecraft
