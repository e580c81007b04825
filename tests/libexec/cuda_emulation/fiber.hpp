#pragma once

#include <cstddef>

namespace stagecraft::emulation {

/// A stack that runs beside others in one host thread: switching is a plain call, nobody preempts.
/// Sanitizers are told of every switch.
///
/// x86-64 switches by hand: swapcontext() asks the kernel for the signal mask each time, 40 times
/// the cost of the rest, and a launch of 256 x 256 threads with two barriers switches 130000 times.
class Fiber {
 public:
  /// The stack of the calling thread.
  Fiber() = default;
  /// A stack that runs `entry`, which must not return.
  /// \throws std::bad_alloc
  explicit Fiber(void (*entry)());
  ~Fiber();
  Fiber(Fiber const&) = delete;
  Fiber(Fiber&&) = delete;
  Fiber& operator=(Fiber const&) = delete;
  Fiber& operator=(Fiber&&) = delete;

  /// Suspends `from`, which is the running one, and goes on in this one.
  void resume_from(Fiber& from);

 private:
  static void first_entry();
  void arrive();

  void (*entry_)() = nullptr;
  void* mapping_ = nullptr;       ///< stack and guard page; null for a thread's own stack
  void* context_ = nullptr;       ///< stack pointer, or a ucontext_t
  void const* bottom_ = nullptr;  ///< for AddressSanitizer
  std::size_t size_ = 0;
  void* fake_stack_ = nullptr;
  void* thread_sanitizer_ = nullptr;
};

}  // namespace stagecraft::emulation
