#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/libexec/cuda_emulation/fiber.hpp"
#include "tests/libexec/cuda_emulation/random_order.hpp"

namespace stagecraft::emulation {

/// A kernel does what no device would do, or what hangs one.
class KernelFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Launch {
  std::string kernel;
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;      ///< dynamic
  std::function<void()> thread;  ///< what each thread does; reads threadIdx and the others
  void const* function;          ///< the kernel's address
  ArgumentBytes arguments;
};

/// Runs the blocks of a grid one after another, and a block's threads in turns: each runs until it
/// waits for others or ends. Which of those that can run comes next is random. Shared memory holds
/// bytes of 0xFF when a block starts.
///
/// A thread that never waits costs a function call: it runs on the stack of the thread before it. A
/// thread that waits keeps the stack it is on.
class BlockRunner {
 public:
  /// \throws KernelFailure  when threads wait for each other in vain, or meet in different places.
  void run(Launch const& launch, RandomOrder& order);

  // What threads call.
  void wait_for_block(std::source_location const& where);
  unsigned long long exchange(ShuffleKind kind,
                              unsigned mask,
                              unsigned long long bits,
                              int operand,
                              int width,
                              std::source_location const& where);

  /// Dynamic shared memory of the running block.
  void* shared_memory() { return shared_.data(); }

  /// The one whose thread is running.
  static BlockRunner* running();

 private:
  enum class State { not_waiting, at_barrier, at_shuffle, ended };
  struct Thread {
    uint3 index;
    State state;
    Fiber* fiber;  ///< null unless it waits, or is about to go on
    std::source_location where;
  };
  struct Warp {
    int waiting;
    // The first thread that waits, and what it asked for.
    std::size_t first;
    ShuffleKind kind;
    int width;
    unsigned long long given[32];
    unsigned long long received[32];
    int source[32];
  };

  /// Trivial: what a thread that is given up has on its stack is not destroyed.
  struct Mistake {
    Thread const* thread = nullptr;  ///< null: there was none
    Thread const* other = nullptr;   ///< what it disagrees with, or null
    char const* why = "";
  };

  void run_block();
  static void enter();
  void run_ready_threads();
  void wait();
  void release(std::size_t first, std::size_t last, State from);
  void set_current(std::size_t thread);
  void switch_to(Fiber& fiber);
  Fiber& idle_fiber();
  void begin_wait(State state, std::source_location const& where);
  [[noreturn]] void fail(Mistake const& mistake);
  Mistake why_nobody_runs() const;
  std::string describe(Mistake const& mistake) const;
  std::string describe(Thread const& thread) const;

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  Fiber* host_ = nullptr;
  Fiber* running_ = nullptr;

  Launch const* launch_ = nullptr;
  RandomOrder* order_ = nullptr;
  std::vector<std::byte> shared_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<std::size_t> ready_;  ///< threads that have not started, or may go on
  std::size_t current_ = 0;
  std::size_t at_barrier_ = 0;
  std::size_t first_at_barrier_ = 0;  ///< the first to come
  std::size_t ended_ = 0;
  Mistake mistake_;
};

}  // namespace stagecraft::emulation
